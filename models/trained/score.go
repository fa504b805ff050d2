package trained

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// Prompts computes the chunks as prompts, through an engine.
func Prompts(ctx context.Context, eng *engine.Engine, chunks []Chunk) ([]Result, error) {
	results := make([]Result, len(chunks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(eng.Info().MaxSequences, 1))
	for i := range chunks {
		group.Go(func() error {
			request := generation.Request{Tokens: chunks[i].IDs, PromptLogprobs: true, TopLogprobs: 1, PromptOnly: true}
			done, err := eng.Generate(ctx, request)
			if err != nil {
				return fmt.Errorf("compute chunk %d of %d tokens: %w", i+1, len(chunks[i].IDs), err)
			}
			for _, p := range done.PromptLogprobs[chunks[i].From:] {
				results[i].Logprobs = append(results[i].Logprobs, p.Logprob)
				results[i].Best = append(results[i].Best, p.Top[0].ID)
			}
			return nil
		})
	}
	return results, group.Wait()
}

// Steps are the sizes of steps in which Generated computes chunks.
type Steps struct {
	Streams int // chunks that are computed together; each has one row in a step; 0 for 16
	KV      gguf.Type
}

const pageSize = 16

// Generated computes the chunks token by token, as answers are generated: each step has one row of
// each of several chunks.
func Generated(ctx context.Context, path string, be compute.Backend, chunks []Chunk, o Steps) (results []Result, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file is only read
	streams := min(cmp.Or(o.Streams, 16), len(chunks))
	longest := 0
	for i := range chunks {
		longest = max(longest, len(chunks[i].IDs))
	}
	pages := (longest + pageSize - 1) / pageSize
	m, err := model.Load(be, f, model.Limits{
		Rows: streams, Outputs: streams, Context: pages * pageSize, Pages: streams * pages, PageSize: pageSize, KV: o.KV,
	})
	if err != nil {
		return nil, err
	}
	results = make([]Result, len(chunks))
	for order := byLength(chunks); len(order) > 0; order = order[min(streams, len(order)):] {
		if err := generate(ctx, m, chunks, order[:min(streams, len(order))], pages, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// byLength returns the indices of the chunks, the longest first, so that chunks that are computed
// together have about the same length.
func byLength(chunks []Chunk) []int {
	order := make([]int, len(chunks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(chunks[b].IDs) - len(chunks[a].IDs) })
	return order
}

// generate computes the chunks with the given indices together. Stream s has the pages from
// s*pages.
func generate(ctx context.Context, m model.Model, chunks []Chunk, which []int, pages int, results []Result) error {
	for at := range len(chunks[which[0]].IDs) - 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := &compute.Batch{}
		for s, i := range which {
			if at >= len(chunks[i].IDs)-1 {
				break // the rest are not longer
			}
			seq := compute.Seq{Rows: 1}
			for p := range pages {
				seq.Pages = append(seq.Pages, int32(s*pages+p))
			}
			b.Tokens = append(b.Tokens, chunks[i].IDs[at])
			b.Positions = append(b.Positions, int32(at))
			b.Outputs = append(b.Outputs, int32(s))
			b.Seqs = append(b.Seqs, seq)
		}
		logits, err := m.Forward(b)
		if err != nil {
			return fmt.Errorf("compute position %d: %w", at, err)
		}
		for s, row := range logits {
			if at+1 < chunks[which[s]].From {
				continue
			}
			r := &results[which[s]]
			best, sum := summary(row)
			r.Best = append(r.Best, best)
			r.Logprobs = append(r.Logprobs, float64(row[chunks[which[s]].IDs[at+1]])-sum)
		}
	}
	return nil
}

// summary returns the index of the highest logit, and the logarithm of the sum of the exponentials
// of all.
func summary(logits []float32) (best int32, sum float64) {
	for i, v := range logits {
		if v > logits[best] {
			best = int32(i)
		}
	}
	top := float64(logits[best])
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return best, top + math.Log(sum)
}
