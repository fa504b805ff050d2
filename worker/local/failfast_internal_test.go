package local

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// Only the first rows of the file count, in whichever order they end.
func TestFailFastWatchesTheFirstRows(t *testing.T) {
	t.Parallel()
	failed := func(line int, code string) queue.Recording {
		r := queue.Failure(&queue.Job{Batch: "b", Line: line}, openai.Error{Code: code, Message: "no"}, queue.Stats{})
		return queue.Recording{Line: line, Failed: r.Failed, Text: r.Text}
	}
	later := failed(7, openai.CodeTimeout)
	f := failFast{limit: 2}
	for _, line := range []int{3, 5, 7, 9} { // lines 1, 2, 4... are not for this run
		f.fed(line)
	}
	require.NoError(t, f.ended([]queue.Recording{later, failed(9, openai.CodeFailed)}))
	require.NoError(t, f.ended([]queue.Recording{failed(5, openai.CodeFailed)}))
	require.NoError(t, f.ended([]queue.Recording{failed(5, openai.CodeFailed)}), "a row counts once")
	var stopped *FailFastError
	require.ErrorAs(t, f.ended([]queue.Recording{failed(3, openai.CodeFailed)}), &stopped)
	require.Equal(t, 2, stopped.Rows)

	f = failFast{limit: 2}
	for _, line := range []int{1, 2, 3} {
		f.fed(line)
	}
	require.NoError(t, f.ended([]queue.Recording{failed(1, openai.CodeFailed), failed(2, openai.CodeTimeout), failed(3, openai.CodeFailed)}), "another code")
	f.fed(4)
	require.NoError(t, f.ended([]queue.Recording{failed(4, openai.CodeFailed)}), "nothing is watched any more")
}
