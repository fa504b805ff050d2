package prompt_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/table"
)

// TestRecordSums: the checksum of a record is known once its line was read, unless the line is the
// input's.
func TestRecordSums(t *testing.T) {
	t.Parallel()
	in, err := prompt.Open([]string{put(t, "a.csv", "prompt\na\nb\nc\nd\n")}, table.Options{}, prompt.Options{})
	require.NoError(t, err)
	defer in.Close()
	_, err = io.ReadAll(in)
	require.NoError(t, err)
	sum := func(text string) string {
		return table.Record{Fields: []table.Field{{Name: "prompt", Value: json.RawMessage(text)}}}.Sum()
	}
	require.Equal(t, sum(`"b"`), in.RecordSum(2))
	require.Equal(t, sum(`"b"`), in.RecordSum(2))
	require.Empty(t, in.RecordSum(1), "lines are asked for in ascending order")
	require.Equal(t, sum(`"d"`), in.RecordSum(4))
	require.Empty(t, in.RecordSum(5))
	lines, err := prompt.Open([]string{put(t, "a.jsonl", `{"prompt":"a"}`)}, table.Options{Select: table.Selection{Limit: 1}}, prompt.Options{})
	require.NoError(t, err)
	defer lines.Close()
	_, err = io.ReadAll(lines)
	require.NoError(t, err)
	require.Empty(t, lines.RecordSum(1))
}

// TestChecksumsOfManyRecords: a stream that nobody asks for checksums holds only the last ones.
func TestChecksumsOfManyRecords(t *testing.T) {
	t.Parallel()
	const n = 70_000
	var text strings.Builder
	text.WriteString("prompt\n")
	for i := range n {
		fmt.Fprintf(&text, "%d\n", i)
	}
	in, err := prompt.Open([]string{put(t, "a.csv", text.String())}, table.Options{}, prompt.Options{})
	require.NoError(t, err)
	defer in.Close()
	_, err = io.Copy(io.Discard, in)
	require.NoError(t, err)
	sum := func(i int) string {
		return table.Record{Fields: []table.Field{{Name: "prompt", Value: fmt.Appendf(nil, `"%d"`, i-1)}}}.Sum()
	}
	require.Empty(t, in.RecordSum(32<<10), "it was dropped")
	require.Equal(t, sum(32<<10+1), in.RecordSum(32<<10+1))
	require.Equal(t, sum(64<<10+1), in.RecordSum(64<<10+1))
	require.Equal(t, sum(n), in.RecordSum(n))
}

// TestChecksumsDoNotDependOnOptions: what the options add to a request is no part of its record.
func TestChecksumsDoNotDependOnOptions(t *testing.T) {
	t.Parallel()
	for _, record := range []string{
		`{"prompt":"a"}`, `{"messages":[{"role":"user","content":"a"}]}`,
		`{"custom_id":"x","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"a"}]}}`,
	} {
		var sums []string
		for _, o := range []prompt.Options{
			{}, {Defaults: []prompt.Default{setting(t, "max_tokens", "5")}}, {System: template(t, "system", "be brief")},
		} {
			in, err := prompt.Open([]string{put(t, "a.json", "["+record+"]")}, table.Options{}, o)
			require.NoError(t, err)
			_, err = io.ReadAll(in)
			require.NoError(t, err)
			sums = append(sums, in.RecordSum(1))
			require.NoError(t, in.Close())
		}
		require.NotEmpty(t, sums[0], record)
		require.Equal(t, []string{sums[0], sums[0], sums[0]}, sums, record)
	}
}
