package job

import "time"

// Worker is what a worker registers about itself. It writes the record again with every beat, every few seconds.
type Worker struct {
	ID              string    `json:"id"`   // one Serve: a worker that was lost and comes back has another one
	Name            string    `json:"name"` // HOST:PID
	Aliases         []string  `json:"aliases"`
	Model           string    `json:"model"`
	ModelSHA256     string    `json:"model_sha256,omitempty"` // empty until it is known: hashing a large file takes a while
	Version         string    `json:"version"`
	Backend         string    `json:"backend"`
	Device          string    `json:"device"`
	Concurrency     int       `json:"concurrency"` // maximum number of rows
	Rows            int       `json:"rows"`        // rows that it holds
	TokensPerSecond float64   `json:"tokens_per_second"`
	Started         time.Time `json:"started"`
	Beat            time.Time `json:"beat"`          // the last one, by the queue's clock
	Lost            time.Time `json:"lost,omitzero"` // when other workers took its rows because it was silent; zero for a live worker
}

// Live reports whether the worker is not lost.
func (w *Worker) Live() bool { return w.Lost.IsZero() }

// Serves reports whether the worker serves a model alias.
func (w *Worker) Serves(alias string) bool {
	for _, a := range w.Aliases {
		if a == alias {
			return true
		}
	}
	return false
}
