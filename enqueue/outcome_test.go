package enqueue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/internal/bounded"
)

// TestHintSaysHowToGoOn checks that an interrupted Enqueue says how to queue the other rows.
func TestHintSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(bounded.Context(t))
	interrupt()
	require.EqualError(t, enqueue.Summary{Batch: "b", Rows: 7}.Hint(ctx, ctx.Err()),
		"stopped before all rows were queued: run the same command with --batch b to queue the others")
}
