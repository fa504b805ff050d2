package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ingot-run/ingot/engine/generation"
)

// digest is the SHA-256 of the model's files, computed in the background, because this takes many
// seconds.
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
		d.sum, d.err = hashFiles(ctx, paths)
	}()
	return d
}

func (d *digest) stop() {
	d.cancel()
	<-d.done
}

func hashFiles(ctx context.Context, paths []string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		if err := hashFile(ctx, h, path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(ctx context.Context, h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("hash the model file: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("hash %s: %w", path, generation.ErrClosed)
		}
		_, err := io.CopyN(h, f, 4<<20)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("hash the model file: %w", err)
		}
	}
}
