package queue

import (
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
)

// Stats are a row's statistics. All are zero for a row that no worker ran.
type Stats struct {
	QueueWaitMS      float64 `json:"queue_wait_ms"` // from queueing to the start of the last attempt
	TTFTMS           float64 `json:"ttft_ms"`       // from the start of the attempt to the first generated token
	TotalMS          float64 `json:"total_ms"`      // from the start to the end of the attempt
	PromptTokens     int     `json:"prompt_tokens"`
	CachedTokens     int     `json:"cached_tokens"` // prompt tokens found in the cache
	CompletionTokens int     `json:"completion_tokens"`
	ReasoningTokens  int     `json:"reasoning_tokens,omitempty"`
	ChoiceTokens     []int   `json:"choice_tokens,omitempty"`  // completion tokens of each choice, if there are several
	ResumedTokens    int     `json:"resumed_tokens,omitempty"` // completion tokens of earlier attempts; speeds and steps do not include them
	PrefillTPS       float64 `json:"prefill_tps"`              // prompt tokens computed per second, from admission to the first token
	DecodeTPS        float64 `json:"decode_tps"`               // tokens per second after the first
	ContextFull      bool    `json:"context_full,omitempty"`   // the context of the worker ended an answer; a longer context may give a longer answer
	Steps            int     `json:"steps"`                    // number of forward passes with tokens of this row
	DraftTokens      int     `json:"draft_tokens"`
	AcceptedTokens   int     `json:"accepted_tokens"`
	MaskedTokens     int     `json:"masked_tokens,omitempty"` // completion tokens drawn under the mask of a constraint
	ForcedTokens     int     `json:"forced_tokens,omitempty"` // completion tokens that a constraint forced
	MaskMS           float64 `json:"mask_ms,omitempty"`       // time that computed masks, mostly while steps ran
	Attempts         int     `json:"attempts"`                // number of attempts, including the last, plus the number of workers that died while they ran the row
	BatchMean        float64 `json:"batch_mean"`              // mean number of sequences in the steps that Steps counts
	Origin
}

// Origin identifies the worker, device and model that answered a row.
type Origin struct {
	Worker      string `json:"worker"`
	Backend     string `json:"backend"`
	Device      string `json:"device"`
	Model       string `json:"model"`
	ModelSHA256 string `json:"model_sha256"`
	Arithmetic  string `json:"arithmetic,omitempty"`       // engine.Info.Arithmetic; empty in results of earlier versions
	Sampling    string `json:"default_sampling,omitempty"` // engine.Info.Recommended as text: the settings of rows that set no sampling option; empty for temperature 1
	Context     int    `json:"context,omitempty"`          // maximum tokens of prompt and answer; 0 in results of earlier versions
	Version     string `json:"version"`

	// Alias is the name of the model in answers: the name under which clients and producers know
	// it. If it is empty, answers have Model, the name in the model's file.
	Alias string `json:"-"`
}

// Fingerprint returns OpenAI's system_fingerprint, such as "fp_c4d04f92bf1d_4-cpu-f16-4096": model
// file, arithmetic and context, and a checksum of Sampling if there is one. Equal requests with
// equal seeds and fingerprints get the same tokens.
func (o Origin) Fingerprint() string {
	model := o.ModelSHA256[:min(12, len(o.ModelSHA256))]
	if o.Arithmetic == "" {
		return "fp_" + o.Backend + "_" + model
	}
	fingerprint := fmt.Sprintf("fp_%s_%s-%d", model, strings.ReplaceAll(o.Arithmetic, "/", "-"), o.Context)
	if o.Sampling != "" {
		fingerprint += fmt.Sprintf("-%08x", crc32.ChecksumIEEE([]byte(o.Sampling)))
	}
	return fingerprint
}

// Pin returns the Pin of the origin's answers.
func (o Origin) Pin() string { return Pin(o.ModelSHA256, o.Sampling, o.Arithmetic) }

// Add sets the statistics of a row from the completions of its prompts, which ran concurrently.
// Counts are summed, and so are the times of prefill and decoding, from which the speeds are
// computed. TTFTMS is the minimum over the prompts, TotalMS the maximum.
func (s *Stats) Add(done []generation.Completion) {
	var prefill, decode, ttft, total, masks time.Duration
	later := 0 // number of tokens, not counting the first token of each choice
	var choices []int
	for i, c := range done {
		e := c.Stats
		s.PromptTokens += e.PromptTokens
		s.CachedTokens += e.CachedTokens
		s.CompletionTokens += e.CompletionTokens
		s.ReasoningTokens += e.ReasoningTokens
		s.ResumedTokens += e.ResumedTokens
		s.Steps += e.Steps
		s.DraftTokens += e.DraftTokens
		s.AcceptedTokens += e.AcceptedTokens
		s.MaskedTokens += e.MaskedTokens
		s.ForcedTokens += e.ForcedTokens
		masks += e.MaskTime
		s.BatchMean += e.BatchMean * float64(e.Steps)
		for _, choice := range c.Choices {
			choices = append(choices, len(choice.Tokens))
		}
		prefill += e.Prefill
		if e.CompletionTokens == 0 { // nothing was generated
			prefill += e.Total
		}
		decode += e.Decode
		later += max(0, e.CompletionTokens-e.ResumedTokens-len(c.Choices))
		total = max(total, e.Total)
		if i == 0 || e.TTFT < ttft {
			ttft = e.TTFT
		}
	}
	if len(choices) > 1 {
		s.ChoiceTokens = choices
	}
	s.TTFTMS, s.TotalMS, s.MaskMS = milliseconds(ttft), milliseconds(total), milliseconds(masks)
	s.PrefillTPS = rate(s.PromptTokens-s.CachedTokens, prefill)
	s.DecodeTPS = rate(later, decode)
	s.BatchMean = round(s.BatchMean/float64(max(s.Steps, 1)), 100)
}

func milliseconds(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 1000) }

func rate(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return round(float64(n)/d.Seconds(), 100)
}

func round(v, parts float64) float64 { return math.Round(v*parts) / parts }
