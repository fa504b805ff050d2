package regex

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDivisible(t *testing.T) {
	b := NewBuilder(Limits{Nodes: 100_000, Work: 1_000_000})
	for _, divisor := range []int{1, 2, 3, 7, 12, 250, 9999} {
		n := b.Divisible(divisor)
		for x := range 3000 {
			assert.Equal(t, x%divisor == 0, b.Match(n, strconv.Itoa(x)), "%d by %d", x, divisor)
			assert.Equal(t, x%divisor == 0, b.Match(n, "-"+strconv.Itoa(x/10)+"."+strconv.Itoa(x%10)))
		}
		assert.False(t, b.Match(n, "x"))
		// Every remainder can be brought to 0.
		for x := range divisor {
			empty, err := b.IsEmpty(b.And(b.remaining(int32(divisor), int32(x)), b.Repeat(b.Divisible(1), 1, Unbounded)), 1_000_000)
			require.NoError(t, err)
			assert.False(t, empty)
		}
	}
	assert.Equal(t, Nothing, b.Divisible(MaxDivisor+1))
	assert.Error(t, b.Err())
}

// TestDivisibleLife compares what arithmetic finds about ranges of numbers with the numbers.
func TestDivisibleLife(t *testing.T) {
	b := NewBuilder(Limits{Nodes: 1_000_000, Work: 100_000_000})
	var digits, nonzero ByteSet
	digits.AddRange('0', '9')
	nonzero.AddRange('1', '9')
	digit := b.Bytes(digits)
	for _, divisor := range []int{1, 2, 7, 10, 16, 97, 250, 997, 4096, 9973, 10_000} {
		for r := range min(divisor, 500) {
			for m := range 4 {
				power := []int{1, 10, 100, 1000}[m]
				some, ends := false, false // a multiple; one that does not end in 0
				for x := range power {
					multiple := (r*power+x)%divisor == 0
					some, ends = some || multiple, ends || multiple && x%10 != 0
				}
				remaining := b.remaining(int32(divisor), int32(r))
				if m > 0 {
					fixed := b.Concat(b.Repeat(digit, m-1, m-1), b.Bytes(nonzero))
					assert.Equal(t, ends, b.And(remaining, fixed) != Nothing, "%d by %d, %d digits", r, divisor, m)
				}
				if r > 0 {
					assert.Equal(t, some, b.And(remaining, b.Repeat(digit, m, m)) != Nothing, "%d by %d, %d digits", r, divisor, m)
				}
				require.NoError(t, b.Err())
			}
		}
	}
}

// TestJointDivisors shows that multiples of several numbers are multiples of one.
func TestJointDivisors(t *testing.T) {
	b := NewBuilder(Limits{Nodes: 100_000, Work: 1_000_000})
	assert.Equal(t, b.Divisible(60), b.And(b.Divisible(12), b.Divisible(10), b.Divisible(15)))
	assert.Equal(t, b.remaining(12, 10), b.And(b.remaining(4, 2), b.remaining(6, 4)))
	assert.NotEqual(t, b.Divisible(1), b.And(b.Divisible(9973), b.Divisible(9967)))
}
