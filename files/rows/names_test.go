package rows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/openai"
)

// Names of lines that are made up take a bit each.
func TestMadeUpNamesAreSmall(t *testing.T) {
	t.Parallel()
	n := NewNames()
	for line := 1; line <= 1000; line++ {
		require.Equal(t, DefaultID(line), n.MakeUp(line))
	}
	require.Len(t, n.unnamed, 16)
	require.False(t, n.Take("line-1000"))
	require.True(t, n.Take("line-1001"))
	require.Equal(t, "line-1001.2", n.MakeUp(1001))
}

// A custom_id that Reader makes for a row never equals the custom_id of another row, earlier or
// later.
func TestMadeUpNamesAreUnique(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, input string
		want        []string // custom_ids, or codes of errors
	}{
		{"given before", `{"custom_id":"line-2","prompt":"a"}` + "\n" + `{"prompt":"b"}`, []string{"line-2", "line-2.2"}},
		{"given after", `{"prompt":"a"}` + "\n" + `{"custom_id":"line-1","prompt":"b"}`, []string{"line-1", openai.CodeDuplicateID}},
		{"given on its own line", `{"custom_id":"line-1","prompt":"a"}`, []string{"line-1"}},
		{"the second choice given before", `{"custom_id":"line-3","prompt":"a"}` + "\n" + `{"custom_id":"line-3.2","prompt":"a"}` + "\n" + `{"prompt":"b"}`,
			[]string{"line-3", "line-3.2", "line-3.3"}},
		{"the second choice given after", `{"custom_id":"line-2","prompt":"a"}` + "\n" + `{"prompt":"b"}` + "\n" + `{"id":"line-2.2","prompt":"a"}`,
			[]string{"line-2", "line-2.2", openai.CodeDuplicateID}},
		{"like a made-up name", `{"prompt":"a"}` + "\n" + `{"custom_id":"line-01","prompt":"b"}` + "\n" + `{"custom_id":"line-","prompt":"b"}`,
			[]string{"line-1", "line-01", "line-"}},
		{"of a row that cannot be used", "{}\n" + `{"custom_id":"line-1","prompt":"b"}`, []string{"line-1", openai.CodeDuplicateID}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, row := range readAll(t, strings.NewReader(c.input), FormatJSONL) {
				if row.Err != nil && row.Err.Code == openai.CodeDuplicateID {
					got = append(got, row.Err.Code)
				} else {
					got = append(got, row.CustomID)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestNamesOfAnyFileAreUnique(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var input strings.Builder
		for range rapid.IntRange(1, 100).Draw(t, "rows") {
			switch n := rapid.IntRange(-20, 100).Draw(t, "name"); {
			case n < 0:
				input.WriteString("{\"prompt\":\"a\"}\n")
			case n%2 == 0:
				fmt.Fprintf(&input, "{\"prompt\":\"a\",\"id\":\"line-%d\"}\n", n)
			default:
				fmt.Fprintf(&input, "{\"prompt\":\"a\",\"id\":\"line-%d.2\"}\n", n)
			}
		}
		seen := map[string]bool{}
		rows, err := readRows(strings.NewReader(input.String()), FormatJSONL)
		require.NoError(t, err)
		for _, row := range rows {
			if row.Err == nil {
				require.False(t, seen[row.CustomID], row.CustomID)
				seen[row.CustomID] = true
			}
		}
	})
}

// A custom_id has a maximum length. A row with a longer one is an error row and gets a made-up
// custom_id.
func TestNamesHaveAMaximumLength(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"custom_id", "id"} {
		for _, size := range []int{openai.MaxCustomID, openai.MaxCustomID + 1} {
			row := readAll(t, strings.NewReader(fmt.Sprintf(`{"prompt":"a",%q:%q}`, field, strings.Repeat("x", size))), FormatJSONL)[0]
			if size <= openai.MaxCustomID {
				require.Nil(t, row.Err)
				require.Len(t, row.CustomID, size)
				continue
			}
			require.Equal(t, openai.CodeInvalidValue, row.Err.Code)
			require.Equal(t, "line-1", row.CustomID)
		}
	}
}
