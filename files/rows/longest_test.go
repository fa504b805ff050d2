package rows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
)

// A line of MaxLine bytes, including its line end, becomes a row. A line with one byte more becomes
// an error row, and the line after it is read as usual.
func TestTheLongestLine(t *testing.T) {
	t.Parallel()
	const start, end, next = `{"prompt":"`, `"}`, "{\"prompt\":\"a\"}\n"
	line := func(bytes int) string { return start + strings.Repeat("a", bytes-len(start)-len(end)) + end }
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"with its end", line(MaxLine-1) + "\n" + next, true},
		{"with its end, one more", line(MaxLine) + "\n" + next, false},
		{"the last line", line(MaxLine), true},
		{"the last line, one more", line(MaxLine + 1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := NewReader(strings.NewReader(c.text), Options{})
			row, err := r.Next()
			require.NoError(t, err)
			if c.ok {
				require.Nil(t, row.Err)
				require.Greater(t, len(row.Body), MaxLine-64)
			} else {
				require.Equal(t, openai.CodeTooLong, row.Err.Code)
			}
			if strings.HasSuffix(c.text, next) {
				row, err = r.Next()
				require.NoError(t, err)
				require.Nil(t, row.Err)
				require.Equal(t, 2, row.Line)
			}
		})
	}
}
