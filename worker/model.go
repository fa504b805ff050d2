package worker

import (
	"context"
	"sync/atomic"

	"github.com/ingot-run/ingot/queue"
)

// model identifies the worker's model in results.
type model struct {
	sha256 func(context.Context) (string, error)
	origin queue.Origin           // without ModelSHA256
	hash   atomic.Pointer[string] // SHA-256 of the model file in hex; nil until the file is hashed
}

// run computes the SHA-256 of the model file, which takes a while.
func (m *model) run(ctx context.Context) {
	if hash, err := m.sha256(ctx); err == nil {
		m.hash.Store(&hash)
	}
}

// known returns the origin of results. ok is false, and ModelSHA256 is empty, until the model file
// is hashed.
func (m *model) known() (o queue.Origin, ok bool) {
	o = m.origin
	hash := m.hash.Load()
	if hash != nil {
		o.ModelSHA256 = *hash
	}
	return o, hash != nil
}

func (m *model) wait(ctx context.Context) (o queue.Origin, err error) {
	o = m.origin
	o.ModelSHA256, err = m.sha256(ctx)
	return o, err
}

// pin returns the Pin of the model. It is empty until the model file is hashed.
func (m *model) pin() string {
	if o, ok := m.known(); ok {
		return o.Pin()
	}
	return ""
}
