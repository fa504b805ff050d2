package queue

import (
	"slices"
	"time"
)

// Worker is a worker's record in the queue. The worker renews it with every heartbeat, every few
// seconds.
type Worker struct {
	ID              string    `json:"id"`   // identifies a call of Serve; a worker that was lost and comes back has another id
	Name            string    `json:"name"` // HOST:PID
	Aliases         []string  `json:"aliases"`
	Model           string    `json:"model"`                      // name of the model's file without its folder and .gguf
	Chat            bool      `json:"chat,omitempty"`             // the model's file has a chat template
	ModelSHA256     string    `json:"model_sha256,omitempty"`     // empty until it is known: hashing a large file takes a while
	Arithmetic      string    `json:"arithmetic,omitempty"`       // engine.Info.Arithmetic; empty for earlier versions
	Sampling        string    `json:"default_sampling,omitempty"` // Origin.Sampling
	Version         string    `json:"version"`
	Backend         string    `json:"backend"`
	Device          string    `json:"device"`
	Context         int       `json:"context,omitempty"` // maximum tokens of prompt and answer
	Concurrency     int       `json:"concurrency"`       // maximum number of rows that run at once
	Rows            int       `json:"rows"`              // number of rows that were taken from the queue and are not finished
	TokensPerSecond float64   `json:"tokens_per_second"`
	Started         time.Time `json:"started"`
	Beat            time.Time `json:"beat"`              // time of the last heartbeat, by the clock of this machine
	Loading         string    `json:"loading,omitempty"` // alias that the worker will serve when it has loaded its model; empty for one that serves Aliases
	Lost            time.Time `json:"lost,omitzero"`     // time when the worker was declared lost and lost its rows; zero for a live worker
}

// Live reports whether the worker is not lost.
func (w *Worker) Live() bool { return w.Lost.IsZero() }

// Serves reports whether the worker serves a model alias.
func (w *Worker) Serves(alias string) bool { return slices.Contains(w.Aliases, alias) }
