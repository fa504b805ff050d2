package modeltest

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
)

// Family is the reference for a small model of a family: the results of transformers for its random
// weights in float32.
type Family struct {
	Name    string
	Files   []string // paths of the model in several types; the first is in float32
	Prompts []FamilyPrompt
	MTP     *FamilyMTP // nil if the model has no MTP layer

	Assistant *FamilyAssistant // nil if the reference has no drafter for the model
}

// FamilyPrompt is a prompt and its greedy answer.
type FamilyPrompt struct {
	IDs       []int32     `json:"ids"`
	Tokens    []int32     `json:"tokens"`
	TopIDs    [][]int32   `json:"top5_ids"`    // [token][5]
	TopLogits [][]float64 `json:"top5_logits"` // [token][5] logits of TopIDs at the position before the token
	LogSumExp []float64   `json:"logsumexp"`   // [token]
}

// Longest returns the length of the longest prompt with its answer.
func (f *Family) Longest() (n int) {
	for _, p := range f.Prompts {
		n = max(n, len(p.IDs)+len(p.Tokens))
	}
	return n
}

// All returns the prompt and the answer.
func (p *FamilyPrompt) All() []int32 { return slices.Concat(p.IDs, p.Tokens) }

// FamilyMTP has the reference results of an MTP layer over a prompt and its answer. The results at
// index i are computed from the state of token i and the embedding of token i+1.
type FamilyMTP struct {
	Prompt    int         `json:"prompt"`      // index of the prompt in Family.Prompts
	TopIDs    [][]int32   `json:"top2_ids"`    // [position][2]
	TopLogits [][]float64 `json:"top2_logits"` // [position][2] logits of TopIDs
}

// FamilyAssistant has the reference results of a drafter; see model.LoadAssistant. The drafts at
// index i are made when token i+1 is the last known one.
type FamilyAssistant struct {
	File   string  `json:"file"`   // path of the drafter
	Prompt int     `json:"prompt"` // index of the prompt in Family.Prompts
	Drafts [][]Top `json:"drafts"` // [token][drafts in a row]
}

// Top has the two highest logits of a draft: their ids and values.
type Top struct {
	IDs    [2]int32
	Logits [2]float64
}

// UnmarshalJSON reads a list of the ids and of the logits.
func (t *Top) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&t.IDs, &t.Logits})
}

// MinGap is the difference of the reference's two highest logits above which a model must choose
// the same best token.
const MinGap = 0.02

// FamilyLimits has room for the prompts and answers of all references. The RoPE factors of models
// with several sets are those for 256 positions.
var FamilyLimits = model.Limits{
	Rows: 256, Outputs: 256, Context: 1024, RopeContext: 256, Pages: groups * pages, PageSize: pageSize, States: Limits.States, Drafts: Limits.Drafts,
}

// Families runs a test for the reference model of each family, in one subtest per model. Some
// references are archives in engine/model/testdata/families, the others are in an archive in the
// folder INGOT_MODELS.
func Families(t *testing.T, test func(t *testing.T, f *Family)) {
	t.Helper()
	archives := repositoryArchives(t)
	more := filepath.Join(os.Getenv("INGOT_MODELS"), "families.tar.xz")
	if _, err := os.Stat(more); err == nil {
		archives = append(archives, more)
	} else {
		t.Run("INGOT_MODELS", func(t *testing.T) {
			t.Skip("some reference models of the families are not tested: set INGOT_MODELS to the folder that has families.tar.xz")
		})
	}
	for _, path := range references(t, archives) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			test(t, readFamily(t, path))
		})
	}
}

// Archived returns the families whose reference models are in the repository: those with recurrent
// states, with convolutions, or with layers of different sizes.
func Archived(tb testing.TB) []*Family {
	tb.Helper()
	var all []*Family
	for _, path := range references(tb, repositoryArchives(tb)) {
		all = append(all, readFamily(tb, path))
	}
	return all
}

func repositoryArchives(tb testing.TB) []string {
	tb.Helper()
	archives, err := filepath.Glob(filepath.Join(testdata(tb), "families", "*.tar.xz"))
	require.NoError(tb, err)
	return archives
}

// references returns the paths of the reference results in archives, in the order of their names.
func references(tb testing.TB, archives []string) (paths []string) {
	tb.Helper()
	for _, archive := range archives {
		list, err := filepath.Glob(filepath.Join(unpacked(tb, archive), "*.json"))
		require.NoError(tb, err)
		paths = append(paths, list...)
	}
	require.NotEmpty(tb, paths)
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return paths
}

// Recurrent returns the path of the reference model of a family with recurrent layers that is in
// the repository. Its tokenizer is that of the micro models.
func Recurrent(tb testing.TB, name string) string {
	tb.Helper()
	archive := filepath.Join(testdata(tb), "families", name+".tar.xz")
	if _, err := os.Stat(archive); err != nil {
		archive = filepath.Join(testdata(tb), "families", "recurrent.tar.xz")
	}
	return filepath.Join(unpacked(tb, archive), name+".f32.gguf")
}

func readFamily(tb testing.TB, path string) *Family {
	tb.Helper()
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	var file struct {
		Files   []string       `json:"files"`
		Prompts []FamilyPrompt `json:"prompts"`
		MTP     *FamilyMTP     `json:"mtp"`

		Assistant *FamilyAssistant `json:"assistant"`
	}
	require.NoError(tb, json.Unmarshal(data, &file))
	f := &Family{Name: strings.TrimSuffix(filepath.Base(path), ".json"), Prompts: file.Prompts, MTP: file.MTP, Assistant: file.Assistant}
	if f.Assistant != nil {
		f.Assistant.File = filepath.Join(filepath.Dir(path), f.Assistant.File)
	}
	for _, name := range file.Files {
		f.Files = append(f.Files, filepath.Join(filepath.Dir(path), name))
	}
	return f
}

// ways are the ways in which Compare divides sequences among steps. Each is a value for the
// parameter next of Logits.
var ways = map[string]func(step int, left []int) []int{
	"alone":     func(_ int, left []int) []int { return firstOnly(left, FamilyLimits.Rows) },
	"in chunks": func(_ int, left []int) []int { return firstOnly(left, 7) },
	"in batches": func(step int, left []int) []int {
		rows := make([]int, len(left))
		for i, n := range left {
			rows[i] = min(n, 1+(step*5+i*3)%11)
		}
		return rows
	},
}

// firstOnly takes at most n rows of the first sequence that has rows left, and none of the others.
func firstOnly(left []int, n int) []int {
	rows := make([]int, len(left))
	for i, have := range left {
		if have > 0 {
			rows[i] = min(n, have)
			break
		}
	}
	return rows
}

// Logits computes prompts with their answers in steps and returns the logits of every token. The
// function next returns the number of rows of each sequence in a step. Its argument left has the
// number of tokens of each sequence that are not computed yet. A sequence with a recurrent state
// has more rows, or none, where the state does not allow the number: see compute.SeqState.
func Logits(tb testing.TB, m model.Model, prompts []FamilyPrompt, next func(step int, left []int) []int) [][][]float32 {
	tb.Helper()
	sequences := make([][]int32, len(prompts))
	out, left := make([][][]float32, len(sequences)), make([]int, len(sequences))
	for i := range prompts {
		sequences[i] = prompts[i].All()
		left[i] = len(sequences[i])
	}
	tables := pageTables(tb, m, sequences)
	for step := 0; slices.Max(left) > 0; step++ {
		b := &compute.Batch{}
		var of []int // [rows] the sequence of each row
		for i, n := range next(step, left) {
			first := len(sequences[i]) - left[i]
			state := compute.SeqState{From: i, Slot: i}
			if m.Config().States.Layers > 0 {
				n = onGrid(first, n, len(prompts[i].IDs), Limits.Rows-len(b.Tokens))
				state.Prompt = min(n, max(len(prompts[i].IDs)-first, 0))
			}
			if n == 0 {
				continue
			}
			if first == 0 {
				state.From = -1
			}
			b.Seqs = append(b.Seqs, compute.Seq{Rows: n, Pages: tables[i][0], Further: tables[i][1:], State: state})
			for p := first; p < first+n; p++ {
				b.Outputs = append(b.Outputs, int32(len(b.Tokens)))
				b.Tokens, b.Positions = append(b.Tokens, sequences[i][p]), append(b.Positions, int32(p))
				of = append(of, i)
			}
			left[i] -= n
		}
		logits, err := m.Forward(b)
		require.NoError(tb, err)
		for row, i := range of {
			out[i] = append(out[i], slices.Clone(logits[row]))
		}
	}
	return out
}

// onGrid returns how many rows from position first on a sequence with a recurrent state has in a
// step: at least n, so that the rows end with the prompt or on the grid of chunks, or none if the
// step has no room for them.
func onGrid(first, n, prompt, room int) int {
	if to := first + n; n > 0 && to < prompt {
		n = min(prompt, (to+compute.ChunkRows-1)/compute.ChunkRows*compute.ChunkRows) - first
	}
	if n > room {
		return 0
	}
	return n
}

// together divides prompts into groups that have room in the cache together.
func together(prompts []FamilyPrompt) (all [][]FamilyPrompt) {
	used := pages
	for _, p := range prompts {
		n := (len(p.All()) + pageSize - 1) / pageSize
		if used += n; used > pages {
			all, used = append(all, nil), n
		}
		all[len(all)-1] = append(all[len(all)-1], p)
	}
	return all
}

// pageTables returns the page tables of sequences: [sequence][group of layers][page]. Pages that
// follow each other in a table are not neighbours.
func pageTables(tb testing.TB, m model.Model, sequences [][]int32) [][][]int32 {
	tb.Helper()
	g := m.Config().Groups(FamilyLimits)
	tables, next := make([][][]int32, len(sequences)), 0
	for i := range tables {
		tables[i] = make([][]int32, g.Full+g.Sliding)
	}
	for page := range pages {
		for i, s := range sequences {
			for group := range tables[i] {
				if page*pageSize < len(s) {
					tables[i][group] = append(tables[i][group], int32(next))
					next++
				}
			}
		}
	}
	require.LessOrEqual(tb, next, FamilyLimits.Pages, "pages for %d sequences", len(sequences))
	return tables
}

// Compare compares a model with a family's reference for some prompts. It compares the best token
// if the two highest logits of the reference differ by more than MinGap, and the log-probabilities
// of the likeliest tokens, which may differ by tolerance. It computes the prompts alone, in chunks
// and in batches. The logits must have the same bits each time. It returns the maximum difference
// of log-probabilities.
func Compare(tb testing.TB, m model.Model, prompts []FamilyPrompt, tolerance float64) (worst float64) {
	tb.Helper()
	for _, group := range together(prompts) {
		worst = max(worst, compare(tb, m, group, tolerance))
	}
	return worst
}

func compare(tb testing.TB, m model.Model, prompts []FamilyPrompt, tolerance float64) (worst float64) {
	tb.Helper()
	alone := Logits(tb, m, prompts, ways["alone"])
	for i := range prompts {
		p := &prompts[i]
		for k, token := range p.Tokens {
			row := alone[i][len(p.IDs)-1+k]
			require.True(tb, finite(row), "prompt %d, token %d: a logit is not finite", i, k)
			if p.TopLogits[k][0]-p.TopLogits[k][1] > MinGap {
				require.Equal(tb, token, Best(row), "prompt %d, token %d", i, k)
			}
			sum := LogSumExp(row)
			for j, id := range p.TopIDs[k] {
				off := math.Abs(float64(row[id]) - sum - (p.TopLogits[k][j] - p.LogSumExp[k]))
				require.Less(tb, off, tolerance, "prompt %d, token %d, id %d", i, k, id)
				worst = max(worst, off)
			}
		}
	}
	for _, way := range []string{"in chunks", "in batches"} {
		require.Equal(tb, alone, Logits(tb, m, prompts, ways[way]), "logits of prompts computed alone and %s differ", way)
	}
	return worst
}

// CompareMTP compares a model's MTP layer with the reference. It returns the maximum difference of
// the likeliest tokens' logits.
func CompareMTP(tb testing.TB, m model.Model, f *Family) (worst float64) {
	tb.Helper()
	d, ok := m.(model.Drafter)
	require.True(tb, ok && m.Config().DraftLayers > 0, "the reference has drafts, but the model has no MTP layer")
	tokens := f.Prompts[f.MTP.Prompt].All()
	_, err := m.Forward(Batch(tokens, 0))
	require.NoError(tb, err)
	states := make([]int32, len(tokens)-1)
	for i := range states {
		states[i] = int32(i)
	}
	require.NoError(tb, d.Draft(Batch(tokens[1:], 0), model.TrunkStates, states))
	logits := d.Logits()
	require.Len(tb, logits, len(f.MTP.TopIDs))
	for i, ids := range f.MTP.TopIDs {
		want := f.MTP.TopLogits[i]
		for j, id := range ids {
			worst = max(worst, math.Abs(float64(logits[i][id])-want[j]))
		}
		if want[0]-want[1] > MinGap {
			require.Equal(tb, ids[0], Best(logits[i]), "draft %d", i)
		}
	}
	return worst
}

// CompareAssistant loads the drafter of a family's reference for a model on a backend, and compares
// its drafts. It returns the maximum difference of the likeliest tokens' logits, relative to these
// logits where they are larger than 1: unlike those of the model, they have no limit.
func CompareAssistant(tb testing.TB, be compute.Backend, m model.Model, f *Family) (worst float64) {
	tb.Helper()
	file, err := gguf.Open(f.Assistant.File)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, file.Close()) })
	d, err := model.LoadAssistant(be, m, file, FamilyLimits)
	require.NoError(tb, err)
	tokens := f.Prompts[f.Assistant.Prompt].All()
	_, err = m.Forward(Batch(tokens, 0))
	require.NoError(tb, err)
	b, states := Batch(slices.Clone(tokens[1:]), 0), make([]int32, len(tokens)-1)
	for i := range states {
		states[i] = int32(i)
	}
	require.Len(tb, f.Assistant.Drafts, len(states))
	source := model.TrunkStates
	for depth := range f.Assistant.Drafts[0] {
		require.NoError(tb, d.Draft(b, source, states))
		source = model.DraftStates
		for i, row := range d.Logits() {
			want := f.Assistant.Drafts[i][depth]
			for j, id := range want.IDs {
				worst = max(worst, math.Abs(float64(row[id])-want.Logits[j])/max(math.Abs(want.Logits[j]), 1))
			}
			if want.Logits[0]-want.Logits[1] > MinGap {
				require.Equal(tb, want.IDs[0], Best(row), "token %d, draft %d", i, depth)
			}
			b.Tokens[i] = want.IDs[0]
		}
	}
	return worst
}
