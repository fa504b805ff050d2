package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
)

// writeInput writes a file of rows: chats and completions, greedy and sampled, short and long, some
// with a common prefix, and a few invalid ones. Every row has a seed, since the default seed of a
// row is derived from the batch id, which differs between batches.
func writeInput(path string, seed uint64, rows int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	r := rand.New(rand.NewPCG(seed, 1))
	lines := json.NewEncoder(w)
	for i := range rows {
		if err := lines.Encode(newRow(r, i+1)); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

const rules = "You are asked by a school. Answer in one sentence. Do not explain how you found the answer, and do not repeat the question."

func newRow(r *rand.Rand, number int) map[string]any {
	row := map[string]any{
		"custom_id":        fmt.Sprintf("row-%d", number),
		"max_tokens":       16 + r.IntN(maxTokens-16),
		"temperature":      0,
		"seed":             r.Int64(),
		"ignore_eos":       true,
		"return_token_ids": true,
	}
	ask := map[string]any{"role": "user", "content": fmt.Sprintf("Compute %d + %d.", r.IntN(100), r.IntN(100))}
	switch kind := r.IntN(100); {
	case kind < 40:
		row["messages"] = []any{ask}
	case kind < 60:
		row["messages"] = []any{map[string]any{"role": "system", "content": rules}, ask}
	case kind < 80:
		row["messages"] = []any{ask}
		row["temperature"] = 0.8
	case kind < 90:
		row["prompt"] = fmt.Sprintf("Once upon a time there were %d bakers who", number)
		row["temperature"], row["n"] = 1, 2
	case kind < 98:
		row["messages"] = []any{ask}
		row["ignore_eos"] = false // the model decides when the answer ends
	default:
		row["messages"] = []any{ask}
		row["temperature"] = -1 // invalid, so the row's result is an error
	}
	return row
}

const maxTokens = 500
