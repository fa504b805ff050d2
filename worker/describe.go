package worker

import (
	"time"

	"github.com/ingot-run/ingot/queue"
)

// describe returns the worker's record for the list of workers.
func (w *Worker) describe() queue.Worker {
	o := w.origin
	record := queue.Worker{
		Name: o.Worker, Model: o.Model, Version: o.Version, Backend: o.Backend, Device: o.Device, Context: w.context,
		TokensPerSecond: w.speed.Measure(w.snapshot().GeneratedTokens, time.Now()),
	}
	if hash := w.hash.Load(); hash != nil {
		record.ModelSHA256 = *hash
	}
	return record
}
