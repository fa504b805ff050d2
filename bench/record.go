package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// Record has the results of a case.
type Record struct {
	Mode    Mode `json:"mode"`
	Batch   int  `json:"batch"`
	Prompt  int  `json:"prompt"` // tokens of a prompt; the mean for questions
	Gen     int  `json:"gen"`    // tokens of an answer; the mean for questions
	Context int  `json:"context"`

	TokensPerS float64 `json:"tokens_per_s"` // median of the runs; Mode determines which tokens count
	// P50ms and P95ms are quantiles of the time per generated token after the first token: the
	// duration of a step divided by the number of tokens that the step generated for the stream. In
	// mode prefill, they are quantiles of the time to the first token.
	P50ms float64 `json:"p50_ms"`
	P95ms float64 `json:"p95_ms"`
	// BytesPerToken is the number of bytes that must be read per token; see Traffic. BandwidthShare
	// is the rate at which these bytes are read at the measured speed, divided by Bandwidth.
	BytesPerToken  float64 `json:"bytes_per_token"`
	BandwidthShare float64 `json:"bandwidth_share"`
	Acceptance     float64 `json:"acceptance"` // share of the drafted tokens that were accepted; 0 if no tokens were drafted
	Backend        string  `json:"backend"`
	Threads        int     `json:"threads"`

	Rows            int     `json:"rows"` // number of requests of a run
	Runs            int     `json:"runs"`
	RowsPerS        float64 `json:"rows_per_s"` // median of the runs
	FirstTokenP50ms float64 `json:"first_token_p50_ms"`
	FirstTokenP95ms float64 `json:"first_token_p95_ms"`
	TokensPerStep   float64 `json:"tokens_per_step"` // mean tokens that a step generated for a stream, after the first token
	CachedTokens    float64 `json:"cached_tokens"`   // mean number of tokens of a prompt that were in the cache
	ExpertsPerStep  float64 `json:"experts_per_step"`
	Bandwidth       float64 `json:"bandwidth"` // memory bandwidth in bytes per second; measured, or from the data sheet of a GPU with dedicated memory
	Model           string  `json:"model"`
	Device          string  `json:"device"`
	// PerStep is nil if the backend does not count its work.
	PerStep *PerStep `json:"per_step,omitempty"`
	// The caller of Measure sets Threads and the following fields.
	KV     string `json:"kv"`
	Draft  string `json:"draft"`
	Shared int    `json:"shared"`

	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	Spread      float64 `json:"spread"` // of the lengths of prompts and answers; see Case.Spread
}

type totals struct {
	answers                            int
	prompt, cached, generated          int
	drafted, accepted, after, decoding int // after counts the tokens after the first; decoding counts the steps that generated them
	first, each                        []time.Duration
}

func sum(runs []run) totals {
	var t totals
	for _, r := range runs {
		for _, one := range r.rounds {
			for _, a := range one.answers {
				t.add(a)
			}
		}
	}
	slices.Sort(t.first)
	slices.Sort(t.each)
	return t
}

func (t *totals) add(a answer) {
	t.answers++
	t.prompt += a.stats.PromptTokens
	t.cached += a.stats.CachedTokens
	t.generated += len(a.times)
	t.drafted += a.stats.DraftTokens
	t.accepted += a.stats.AcceptedTokens
	t.first = append(t.first, a.firstToken())
	a.steps(func(tokens int, took time.Duration) {
		t.after += tokens
		t.decoding++
		for range tokens {
			t.each = append(t.each, took/time.Duration(tokens))
		}
	})
}

func (b *Bench) record(c Case, runs []run) (Record, error) {
	var speeds, rows []float64
	for i := range runs {
		tokens, took := runs[i].speed(c.Mode)
		if took == 0 {
			return Record{}, fmt.Errorf("%d streams never generated at the same time: use longer answers (--gen)", c.Batch)
		}
		speeds = append(speeds, float64(tokens)/took.Seconds())
		n := 0
		for _, r := range runs[i].rounds {
			n += len(r.answers)
		}
		rows = append(rows, float64(n)/runs[i].elapsed.Seconds())
	}
	t, info := sum(runs), b.engine.Info()
	n := float64(t.answers)
	r := Record{
		Mode: c.Mode, Batch: c.Batch, Context: c.Context,
		Prompt: int(math.Round(float64(t.prompt)/n)) - c.Context, Gen: int(math.Round(float64(t.generated) / n)),
		TokensPerS: median(speeds), P50ms: quantile(t.each, 0.5), P95ms: quantile(t.each, 0.95),
		Rows: t.answers / len(runs), Runs: len(runs), RowsPerS: median(rows),
		FirstTokenP50ms: quantile(t.first, 0.5), FirstTokenP95ms: quantile(t.first, 0.95),
		CachedTokens: float64(t.cached) / n, Shared: c.Shared, Temperature: c.Sampling.Temperature, TopP: c.Sampling.TopP, Spread: c.Spread,
		Bandwidth: b.bandwidth, Backend: info.Backend, Device: info.Device, Model: info.Model,
	}
	if c.Mode == Prefill {
		r.P50ms, r.P95ms, r.Gen = r.FirstTokenP50ms, r.FirstTokenP95ms, 0
	}
	if t.drafted > 0 {
		r.Acceptance = float64(t.accepted) / float64(t.drafted)
	}
	if t.decoding > 0 {
		r.TokensPerStep = float64(t.after) / float64(t.decoding)
	}
	b.traffic.fill(&r, &t)
	r.BandwidthShare = r.BytesPerToken * r.TokensPerS / b.bandwidth
	return r, nil
}

func (t *Traffic) fill(r *Record, sums *totals) {
	n := float64(sums.answers)
	prompt, cached, generated := float64(sums.prompt)/n, float64(sums.cached)/n, float64(sums.generated)/n
	streams := float64(min(r.Batch, r.Rows))
	prefill := t.prompts(streams, cached, prompt-cached) / streams // bytes of prompts per stream
	if r.Mode == Prefill {
		r.BytesPerToken = prefill / (prompt - cached)
		r.ExpertsPerStep = t.Experts(min(float64(t.stepTokens), streams*(prompt-cached)))
		return
	}
	rows := 1.0
	if sums.decoding > 0 {
		rows += float64(sums.drafted) / float64(sums.decoding)
	}
	decode := t.Decode(streams, rows, prompt+generated/2).Sum() / (streams * max(r.TokensPerStep, 1))
	r.ExpertsPerStep = t.Experts(streams * rows)
	if r.Mode == Decode {
		r.BytesPerToken = decode
		return
	}
	r.BytesPerToken = (prefill + decode*(generated-1)) / generated
}

// WriteTable writes records as a table.
func WriteTable(w io.Writer, records []Record) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "mode\tbatch\tcontext\tprompt\tgen\ttok/s\trows/s\tfirst p50\tp95 ms\ttoken p50\tp95 ms\tMB/token\tbandwidth\tacceptance\ttok/step\t") //nolint:errcheck // Flush reports it
	for i := range records {
		r := &records[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.2f\t%.3f\t%.3f\t%.2f\t%.0f %%\t%s\t%.2f\t\n", //nolint:errcheck // Flush reports it
			r.Mode, r.Batch, r.Context, r.Prompt, r.Gen, r.TokensPerS, r.RowsPerS, r.FirstTokenP50ms, r.FirstTokenP95ms,
			r.P50ms, r.P95ms, r.BytesPerToken/1e6, 100*r.BandwidthShare, percent(r.Acceptance), r.TokensPerStep)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range records {
		r := &records[i]
		if p := r.PerStep; p != nil {
			fmt.Fprintf(w, "a step of %s, batch %d, context %d, prompt %d: %.1f dispatches, %.2f command buffers, %.2f waits\n", //nolint:errcheck // the table before it was written
				r.Mode, r.Batch, r.Context, r.Prompt, p.Dispatches, p.CommandBuffers, p.Waits)
		}
	}
	return nil
}

// percent formats a share as a percentage. It returns "-" for 0, which means that there is no
// value.
func percent(share float64) string {
	if share == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
