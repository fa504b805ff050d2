package rows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit         string
		failed, total int
		want          string
	}{
		{"", 0, 0, ""},
		{"", 1, 2, ""},
		{"", 1, 1, "the only row failed"},
		{"", 2, 2, "all 2 rows failed"},
		{"", 2, 3, "2 of 3 rows failed, more than half"},
		{"0%", 0, 3, ""},
		{"0%", 1, 3, "1 of 3 rows failed, more than 0%"},
		{"49.5%", 1, 2, "1 of 2 rows failed, more than 49.5%"},
		{"100%", 3, 3, ""},
	} {
		var l FailLimit
		if c.limit != "" {
			require.NoError(t, l.Set(c.limit))
		}
		require.Equal(t, c.limit, l.String())
		err := l.Check(c.failed, c.total)
		if c.want == "" {
			require.NoError(t, err, c)
			continue
		}
		require.EqualError(t, err, c.want)
	}
	for _, wrong := range []string{"", "5", "-1%", "101%", "NaN%", "%"} {
		require.Error(t, new(FailLimit).Set(wrong), wrong)
	}
}

// TestDescribeFailures checks the order of the codes, and that a long message is cut.
func TestDescribeFailures(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"errors: b 2 (such as two\\x1b)", "errors: a 1 (" + strings.Repeat("ä", 300) + "…)"}, DescribeFailures(map[string]Failures{
		"a": {Rows: 1, Example: strings.Repeat("ä", 301)}, "b": {Rows: 2, Example: "two\x1b"},
	}))
}
