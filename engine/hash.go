package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ingot-run/ingot/generation"
)

// digest is the SHA-256 of the model file. It is computed in the background, because a large file takes many seconds.
type digest struct {
	cancel context.CancelFunc
	done   chan struct{}
	sum    string
	err    error
}

func startDigest(path string) *digest {
	ctx, cancel := context.WithCancel(context.Background())
	d := &digest{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.sum, d.err = hashFile(ctx, path)
	}()
	return d
}

// stop ends the computation, whether it is complete or not.
func (d *digest) stop() {
	d.cancel()
	<-d.done
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash the model file: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	h := sha256.New()
	for {
		if ctx.Err() != nil {
			return "", fmt.Errorf("hash %s: %w", path, generation.ErrClosed)
		}
		_, err := io.CopyN(h, f, 4<<20)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", fmt.Errorf("hash the model file: %w", err)
		}
	}
}
