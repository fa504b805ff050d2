package queue

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nobody wants a result that no reader of the batch could ever read.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		ErrNoBatch: true, ErrCancelled: true, ErrOtherFile: true, ErrNoRow: true,
		nil: false, ErrUnfinished: false, ErrRecorded: false, ErrSuperseded: false, ErrOtherModel: false, ErrDamaged: false,
		ErrUnavailable: false, ErrFull: false, context.Canceled: false,
	} {
		require.Equal(t, want, Unwanted(err), "%v", err)
		if err != nil {
			require.Equal(t, want, Unwanted(fmt.Errorf("record row 1: %w", err)), "%v", err)
		}
	}
}
