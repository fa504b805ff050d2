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
