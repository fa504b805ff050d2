package eval_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model/modeltest"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/task"
)

// reference holds log-probabilities that Hugging Face transformers computed in float32.
type reference struct {
	words *tokenizer.Tokenizer
	cases []modeltest.Case
}

func newReference(t *testing.T, path string) *reference {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	words, err := tokenizer.New(f.Meta())
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return &reference{words, modeltest.Cases(t, path)}
}

// logprob returns the log-probability of token id after position i of a case. ok is false if the
// token is not among the reference's eight likeliest tokens at that position.
func (r *reference) logprob(c *modeltest.Case, i int, id int32) (float64, bool) {
	for _, top := range c.TopLogits[i] {
		if int32(top[0]) == id {
			return top[1] - c.LogSumExp[i], true
		}
	}
	return 0, false
}

// follows reports whether a text that is appended to a prompt is tokenised as the given ids.
func (r *reference) follows(c *modeltest.Case, text string, ids ...int32) bool {
	return slices.Equal(r.words.Encode(c.Text+text, tokenizer.EncodeOptions{Special: true, BOS: r.words.AddsBOS()}), append(slices.Clone(c.PromptTokens), ids...))
}

// written writes a task and its rows to files and loads them.
func written(t *testing.T, name, settings string, rows []map[string]any) *eval.Set {
	t.Helper()
	folder := t.TempDir()
	var text strings.Builder
	for _, row := range rows {
		line, err := json.Marshal(row)
		require.NoError(t, err)
		text.Write(append(line, '\n'))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rows.jsonl"), []byte(text.String()), 0o600))
	path := filepath.Join(folder, "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte("task: "+name+"\ndata: rows.jsonl\n"+settings), 0o600))
	read, err := task.Read(path)
	require.NoError(t, err)
	s, err := eval.Load(read, 0)
	require.NoError(t, err)
	return s
}

// TestScoresAgainstTransformers computes expected scores from the logits of transformers for the
// bundled models: log-probabilities of answers, of single-token choices and of whole texts, and
// from these acc, acc_norm, acc_bytes and perplexity. It compares them with the scores of a run.
func TestScoresAgainstTransformers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tiny-llama", "tiny-glm"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := modeltest.Tiny(t, name)
			r := newReference(t, path)
			var likely, choices, texts []map[string]any
			var targets []float64     // log-probabilities of the answers
			var options [][]float64   // log-probabilities of the choices
			var used []modeltest.Case // cases of the whole texts
			for _, c := range r.cases {
				n := len(c.PromptTokens)
				answer := c.GreedyTokens[:len(c.GreedyTokens)-1] // without the stop id
				if !r.follows(&c, c.GreedyText, answer...) {
					continue // the text is tokenised differently from the tokens that the model generated
				}
				sum := 0.0
				for i, id := range answer {
					p, ok := r.logprob(&c, n-1+i, id)
					require.True(t, ok, "the reference has each greedy token")
					sum += p
				}
				likely, targets = append(likely, map[string]any{"text": c.Text, "answer": c.GreedyText}), append(targets, sum)
				var list []string
				var expected []float64
				for _, top := range c.TopLogits[n-1] {
					id := int32(top[0])
					if text := r.words.Decode([]int32{id}); text != "" && strings.TrimSpace(text) == text && r.follows(&c, text, id) {
						list, expected = append(list, text), append(expected, top[1]-c.LogSumExp[n-1])
					}
				}
				if len(list) > 1 {
					right := len(choices) % 2 // alternate: the likeliest choice is right, then another one
					choices, options = append(choices, map[string]any{"text": c.Text, "options": list, "right": right}), append(options, expected)
				}
				texts, used = append(texts, map[string]any{"text": c.Text + c.GreedyText}), append(used, c)
			}
			require.GreaterOrEqual(t, len(likely), 10)
			require.GreaterOrEqual(t, len(choices), 10)
			sets := []*eval.Set{
				written(t, "likely", "output_type: loglikelihood\ndoc_to_text: text\ndoc_to_target: answer\nmetric_list: [{metric: acc}, {metric: perplexity}]\n", likely),
				written(t, "choices", "output_type: multiple_choice\ndoc_to_text: text\ndoc_to_choice: options\ndoc_to_target: right\ntarget_delimiter: ''\n"+
					"metric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}]\n", choices),
				written(t, "texts", "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: text\n", texts),
			}
			folder := answeredBy(t, path, sets, 8, engine.Options{})
			results, err := eval.ReadResults(folder)
			require.NoError(t, err)

			samples, err := eval.ReadSamples(folder, "likely")
			require.NoError(t, err)
			total := 0.0
			for i, s := range samples {
				require.InDelta(t, targets[i], s.Logprob, 2e-3)
				total += targets[i]
			}
			require.InDelta(t, 1, results.Results["likely"]["acc,none"], 0, "greedy answers")
			require.InEpsilon(t, math.Exp(-total/float64(len(targets))), results.Results["likely"]["perplexity,none"], 1e-3)

			samples, err = eval.ReadSamples(folder, "choices")
			require.NoError(t, err)
			for i, s := range samples {
				require.InDeltaSlice(t, options[i], s.Logprobs, 2e-3)
				list := choices[i]["options"].([]string)
				right := choices[i]["right"].(int)
				best := func(size func(string) int) float64 {
					at := 0
					for k := range list {
						if options[i][k]/float64(size(list[k])) > options[i][at]/float64(size(list[at])) {
							at = k
						}
					}
					if at == right {
						return 1
					}
					return 0
				}
				require.InDelta(t, best(func(string) int { return 1 }), s.Scores["acc"], 0)
				require.InDelta(t, best(func(s string) int { return len([]rune(s)) }), s.Scores["acc_norm"], 0)
				require.InDelta(t, best(func(s string) int { return len(s) }), s.Scores["acc_bytes"], 0)
			}
			r.checkTexts(t, folder, used)
		})
	}
}

// checkTexts compares the sums over whole texts, and the log-probability of each token that is
// among the reference's eight likeliest.
func (r *reference) checkTexts(t *testing.T, folder string, cases []modeltest.Case) {
	t.Helper()
	samples, err := eval.ReadSamples(folder, "texts")
	require.NoError(t, err)
	answers, err := os.ReadFile(filepath.Join(folder, eval.AnswersFile))
	require.NoError(t, err)
	var compared, tokens int
	for line := range strings.Lines(string(answers)) {
		var l struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Body struct {
					Choices []struct {
						Logprobs struct {
							Logprobs []*float64 `json:"token_logprobs"`
						} `json:"logprobs"`
					} `json:"choices"`
				} `json:"body"`
			} `json:"response"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		number, ok := strings.CutPrefix(l.CustomID, "texts:")
		if !ok {
			continue
		}
		var row int
		require.NoError(t, json.Unmarshal([]byte(strings.TrimSuffix(number, ":0")), &row))
		c := &cases[row]
		all := c.Tokens()[:len(c.PromptTokens)+len(c.GreedyTokens)-1]
		got := l.Response.Body.Choices[0].Logprobs.Logprobs
		require.Len(t, got, len(all))
		sum := 0.0
		for i := 1; i < len(all); i++ {
			tokens++
			sum += *got[i]
			if want, ok := r.logprob(c, i-1, all[i]); ok {
				compared++
				require.InDelta(t, want, *got[i], 2e-3)
			}
		}
		require.InDelta(t, sum, samples[row].Logprob, 1e-9)
	}
	t.Logf("%d of %d tokens are among the reference's likeliest eight", compared, tokens)
	require.Greater(t, compared, tokens/2)
}
