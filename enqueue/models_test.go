package enqueue_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// Each row is in the queue of the model that it names. Queueing the file again adds nothing, even
// without ByModel.
func TestRowsGoToTheModelsThatTheyName(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 600
		models := []string{"", "glm", "default", "org/small"}
		var file strings.Builder
		for i := range n {
			model := ""
			if name := models[i%len(models)]; name != "" {
				model = fmt.Sprintf(`,"model":%q`, name)
			}
			fmt.Fprintf(&file, `{"prompt":"hello %d"%s}`+"\n", i, model)
		}
		fmt.Fprintln(&file, `{"prompt":"a","model":"no name"}`)
		counts := map[string]int{"default": n / 2, "glm": n / 4, "org/small": n / 4}
		for i, byModel := range []bool{true, true, false} {
			sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(file.String()), enqueue.Options{
				Batch: "b", ByModel: byModel, IgnoreUnknown: !byModel,
			})
			require.NoError(t, err)
			want := enqueue.Summary{Batch: "b", Total: n + 1, Rows: n + 1, Known: n + 1, Models: counts}
			if i == 0 {
				want.Known, want.Added, want.Rejected = 0, n, 1
			}
			require.Equal(t, want, sum)
		}
		s, err := q.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, []string{"default", "glm", "org/small"}, s.Aliases())
		for alias, rows := range counts {
			for _, j := range queuetest.Take(t, q, alias, queue.Default, rows) {
				require.Equal(t, alias, cmp.Or(models[(j.Line-1)%len(models)], queue.DefaultAlias))
				require.Equal(t, alias, cmp.Or(j.Alias, queue.DefaultAlias))
			}
		}
	})
}

// A file can name MaxModels models. Rows that name another one are errors, whatever was queued
// before.
func TestAFileNamesALimitedNumberOfModels(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		var file strings.Builder
		for i := range 2 * (enqueue.MaxModels + 5) {
			fmt.Fprintf(&file, `{"prompt":"a","model":"m%d"}`+"\n", i%(enqueue.MaxModels+5))
		}
		for _, byModel := range []bool{true, false} {
			sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(file.String()), enqueue.Options{
				Batch: fmt.Sprint("by-model-", byModel), ByModel: byModel, IgnoreUnknown: !byModel,
			})
			require.NoError(t, err)
			want := []int{2 * (enqueue.MaxModels + 5), 0, 0}
			if byModel {
				want = []int{2 * enqueue.MaxModels, 10, enqueue.MaxModels}
			}
			require.Equal(t, want, []int{sum.Added, sum.Rejected, len(sum.Models)})
		}
		var message string
		require.NoError(t, queue.Errors(t.Context(), q, "by-model-true", func(e queue.RowError) error {
			message = e.Code + ": " + e.Message
			return nil
		}))
		require.Regexp(t, `^model_not_found: model "m10\d": the rows before name 100 other models, which is the maximum \(--unknown-fields ignore`, message)
	})
}

// Rows of a batch for one model cannot name another one. Without an alias, it is the default model.
func TestRowsOfOneModel(t *testing.T) {
	t.Parallel()
	for alias, name := range map[string]string{"": queue.DefaultAlias, "m": "m"} {
		file := fmt.Sprintf("{\"prompt\":\"a\",\"model\":%q}\n{\"prompt\":\"a\",\"model\":\"other\"}\n{\"prompt\":\"a\"}\n", name)
		sum, err := enqueue.Enqueue(t.Context(), memqueue.New(), strings.NewReader(file), enqueue.Options{Batch: "b", Alias: alias})
		require.NoError(t, err)
		require.Equal(t, enqueue.Summary{Batch: "b", Total: 3, Rows: 3, Added: 2, Rejected: 1}, sum, name)
	}
}
