package serve_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// lmEvalPair is a context and its continuation, as lm-eval scores them. lm-eval tokenizes both as
// one text, and counts as continuation all tokens after those of the context.
type lmEvalPair struct {
	text    string
	ids     []int32
	context int // number of tokens of the context
}

// lmEvalPairs returns pairs of texts that are not in the model's training data.
func lmEvalPairs(t testing.TB, eng *engine.Engine, n int) (pairs []lmEvalPair) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "models", "heldout.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	tokens := eng.Tokenizer()
	for lines := bufio.NewScanner(f); lines.Scan() && len(pairs) < n; {
		var row struct{ Question, Answer string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		// Some texts begin in the middle of a question, so that the lengths differ widely.
		text := row.Question[len(row.Question)*(len(pairs)%4)/5:] + " " + row.Answer
		ids := tokens.Encode(text, tokenizer.EncodeOptions{BOS: true})
		pairs = append(pairs, lmEvalPair{text, ids, max(1, len(ids)-1-len(pairs)%5)})
	}
	require.Len(t, pairs, n)
	return pairs
}

// score is what lm-eval computes from a response: the sum of the continuation's log-probabilities,
// and whether each of its tokens is the most likely one.
type score struct {
	sum    float64
	greedy bool
}

// own computes the score of a pair with the engine, one token at a time, from the distribution
// after the tokens before it.
func own(t testing.TB, eng *engine.Engine, p lmEvalPair) (s score) {
	t.Helper()
	s.greedy = true
	for i := p.context; i < len(p.ids); i++ {
		vocab := eng.Info().Vocab
		done, err := eng.Generate(t.Context(), generation.Request{Tokens: p.ids[:i], MaxTokens: 1, Logprobs: true, TopLogprobs: vocab})
		require.NoError(t, err)
		top := done.Choices[0].Logprobs[0].Top
		at := slices.IndexFunc(top, func(l generation.TokenLogprob) bool { return l.ID == p.ids[i] })
		s.sum += top[at].Logprob
		s.greedy = s.greedy && top[at].Logprob == top[0].Logprob
	}
	return s
}

type lmEvalResponse struct {
	Choices []struct {
		Index    int    `json:"index"`
		Text     string `json:"text"`
		Logprobs struct {
			Tokens []*float64           `json:"token_logprobs"`
			Top    []map[string]float64 `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
}

// TestLMEvalLoglikelihood sends the requests of lm-eval's local-completions and reads the responses
// in the same way. For every form of request, the sums are bit-identical to those of stepwise
// decoding.
func TestLMEvalLoglikelihood(t *testing.T) {
	t.Parallel()
	eng, err := shared()
	require.NoError(t, err)
	pairs := lmEvalPairs(t, eng, 60)
	want := make([]score, len(pairs))
	for i, p := range pairs {
		want[i] = own(t, eng, p)
	}
	servers := map[string]*bench{
		"alone": setUp(t, nil),
		"fleet": setUpFleet(t, redisqueue.New(redistest.Start(t).Client)),
	}
	for _, form := range []struct {
		name   string
		size   int  // number of prompts per request
		texts  bool // prompts are texts instead of token ids
		single bool // the prompt is not in a list
		fields string
		last   int // number of entries that lm-eval drops at the end
	}{
		{"lists of ids, one each", 1, false, false, `"max_tokens":1,"logprobs":1`, 1},
		{"lists of ids, 7 each", 7, false, false, `"max_tokens":1,"logprobs":1`, 1},
		{"lists of ids, 60 at once", 60, false, false, `"max_tokens":1,"logprobs":1`, 1},
		{"ids", 1, false, true, `"max_tokens":1,"logprobs":1`, 1},
		{"a text", 1, true, true, `"max_tokens":1,"logprobs":1`, 1},
		{"lists of texts, 16 each", 16, true, false, `"max_tokens":1,"logprobs":1`, 1},
		{"an older lm-eval", 8, false, false, `"max_tokens":0,"logprobs":10`, 0},
		{"the generated token ends the answer", 9, false, false, `"max_tokens":1,"logprobs":1,"logit_bias":{"` + fmt.Sprint(eos(t, eng)) + `":100}`, 1},
	} {
		for at, b := range servers {
			t.Run(form.name+", "+at, func(t *testing.T) {
				t.Parallel()
				for first := 0; first < len(pairs); first += form.size {
					batch := pairs[first:min(first+form.size, len(pairs))]
					var prompts []any
					for _, p := range batch {
						if form.texts {
							prompts = append(prompts, p.text)
						} else {
							prompts = append(prompts, p.ids)
						}
					}
					var prompt any = prompts
					if form.single {
						prompt = prompts[0]
					}
					raw, err := json.Marshal(prompt)
					require.NoError(t, err)
					var got lmEvalResponse
					b.post(t, "/v1/completions", `{"prompt":`+string(raw)+`,"model":"tiny","temperature":0,"seed":1234,"echo":true,`+form.fields+`}`, &got)
					require.Len(t, got.Choices, len(batch))
					for i, p := range batch {
						require.Equal(t, i, got.Choices[i].Index)
						l := got.Choices[i].Logprobs
						require.Len(t, l.Tokens, len(p.ids)+form.last, "P+1 entries, of which the last is dropped")
						require.Len(t, l.Top, len(p.ids)+form.last)
						require.Nil(t, l.Tokens[0])
						s := score{greedy: true}
						for k := p.context; k < len(l.Tokens)-form.last; k++ {
							s.sum += *l.Tokens[k]
							s.greedy = s.greedy && *l.Tokens[k] == slices.Max(slices.Collect(maps.Values(l.Top[k])))
						}
						// Here, backends compute the sum over the vocabulary in float32.
						require.InDelta(t, want[first+i].sum, s.sum, 1e-6*float64(len(l.Tokens)), "pair %d", first+i)
						require.Equal(t, want[first+i].greedy, s.greedy, "pair %d", first+i)
					}
				}
			})
		}
	}
}

func eos(t testing.TB, eng *engine.Engine) int32 {
	t.Helper()
	stops := eng.Tokenizer().StopIDs()
	require.NotEmpty(t, stops)
	return stops[0]
}

// TestLMEvalGeneration sends the requests of lm-eval's generate_until: many prompts with the same
// settings, and no stop strings or more than four.
func TestLMEvalGeneration(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	pairs := lmEvalPairs(t, b.engine, 12)
	for _, stop := range []string{`[]`, `["\n\n","Question:","</s>","<|im_end|>","a","e"]`} {
		settings := `,"model":"tiny","max_tokens":12,"temperature":0,"seed":1234,"stop":` + stop + `}`
		var ids [][]int32
		for _, p := range pairs {
			ids = append(ids, p.ids)
		}
		raw, err := json.Marshal(ids)
		require.NoError(t, err)
		var all lmEvalResponse
		b.post(t, "/v1/completions", `{"prompt":`+string(raw)+settings, &all)
		require.Len(t, all.Choices, len(pairs))
		for i, p := range pairs {
			one, err := json.Marshal([][]int32{p.ids})
			require.NoError(t, err)
			var lone lmEvalResponse
			b.post(t, "/v1/completions", `{"prompt":`+string(one)+settings, &lone)
			require.Equal(t, lone.Choices[0].Text, all.Choices[i].Text)
		}
	}
	// lm-eval's local-chat-completions adds a type to messages. Without a key, it sends the header
	// "Bearer ".
	got := b.send(t, http.MethodPost, "/v1/chat/completions",
		`{"model":"tiny","messages":[{"role":"user","content":"Hi","type":"text"}],"max_tokens":4,"temperature":0,"stop":["x"],"seed":1234}`, "Authorization", "Bearer ")
	require.Equal(t, 200, got.status, got.text)
}
