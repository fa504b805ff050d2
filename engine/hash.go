package engine

import (
	"context"
	"fmt"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/filesum"
)

// digest is the SHA-256 of the model's files, computed in the background, because this can
// take many seconds.
type digest struct {
	cancel context.CancelFunc
	done   chan struct{}
	sum    string
	err    error
}

func startDigest(paths []string) *digest {
	ctx, cancel := context.WithCancel(context.Background())
	d := &digest{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		if d.sum, d.err = filesum.SHA256(ctx, paths...); d.err != nil {
			d.err = fmt.Errorf("hash the model file: %w", d.err)
		}
		if ctx.Err() != nil {
			d.err = generation.ErrClosed
		}
	}()
	return d
}

func (d *digest) stop() {
	d.cancel()
	<-d.done
}
