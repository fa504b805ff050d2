package schedule

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// simulated is a model that computes nothing: its logits are hashes of the whole text before them.
// It notes in each slot of the cache which token was stored there and after which text, and fails
// the test if a row would read another text than that of its own sequence. So it checks the pages,
// positions, recurrent states and tokens of every step, and takes little time.
type simulated struct {
	model.Model
	t      testing.TB
	config model.Config
	limits model.Limits
	groups cache.Groups
	wrong  uint64        // one token of so many differs from those of a model with 0
	blind  bool          // texts are not checked
	took   time.Duration // duration of a pass, where the clock is that of synctest

	cells  []map[int]cell // [groups] by page*PageSize+slot
	states map[int]recurrentState
	texts  []cell        // of the outputs of the last step
	drawn  [][][]float32 // [steps][outputs]
	best   [][][]float32
}

// cell is what a position's keys and values depend on.
type cell struct {
	position      int
	token, before int32
	text          uint64 // hash of all tokens up to this one
}

// recurrentState is a slot of recurrent states: the text that it includes, and that after each of
// the rows in its log.
type recurrentState struct {
	positions int
	text      uint64
	log       []uint64
}

func hash(text uint64, n int) uint64 {
	text = (text ^ uint64(n+1)) * 0x9E3779B97F4A7C15
	return text ^ text>>29
}

// newSimulated returns a scheduler of a simulated model with the vocabulary of a small one.
func newSimulated(t testing.TB, config model.Config, limits model.Limits, o Options, speculate func(m *simulated, o *draft.Options)) manual {
	t.Helper()
	f, err := gguf.Open(microLlama)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	o.Tokenizer, err = tokenizer.New(f.Meta())
	require.NoError(t, err)
	config.Vocab, config.Layers = o.Tokenizer.Size(), max(config.Layers, 1)
	o.MaxSequences, o.MaxInFlight = cmp.Or(o.MaxSequences, 8), max(1, o.MaxInFlight)
	limits.Rows, limits.Outputs = cmp.Or(limits.Rows, 128), Outputs(o.MaxSequences)
	limits.Context, limits.PageSize = cmp.Or(limits.Context, 320), cmp.Or(limits.PageSize, 16)
	limits.Pages = cmp.Or(limits.Pages, 4*o.MaxSequences*limits.Context/limits.PageSize)
	o.PrefillChunk = cmp.Or(o.PrefillChunk, limits.Rows)
	m := simulate(t, config, limits)
	o.Model, o.Limits = m, limits
	if speculate != nil {
		d := draft.Options{Model: m, Limits: limits, Steps: constant(1), MaxInFlight: o.MaxInFlight}
		speculate(m, &d)
		o.Speculator, err = draft.New(d)
		require.NoError(t, err)
	}
	return manual{t, New(o)}
}

func simulate(t testing.TB, config model.Config, limits model.Limits) *simulated {
	m := &simulated{t: t, config: config, limits: limits, groups: Groups(config, limits), states: map[int]recurrentState{}}
	for range max(1, m.groups.Full) + m.groups.Sliding {
		m.cells = append(m.cells, map[int]cell{})
	}
	return m
}

func (m *simulated) Config() model.Config { return m.config }

func (m *simulated) at(group int, s *compute.Seq, position int) int {
	page := int(s.Table(group)[position/m.limits.PageSize])
	return page*m.limits.PageSize + position%m.limits.PageSize
}

// pass computes the rows of a step.
func (m *simulated) pass(b *compute.Batch) {
	if len(b.Tokens) > m.limits.Rows || len(b.Outputs) > m.limits.Outputs || !slices.IsSorted(b.Outputs) {
		m.t.Fatalf("a step of %d rows with outputs %v", len(b.Tokens), b.Outputs)
	}
	rows := make([]cell, 0, len(b.Tokens))
	for i := range b.Seqs {
		s := &b.Seqs[i]
		first := len(rows)
		for range s.Rows {
			now := cell{position: int(b.Positions[len(rows)]), token: b.Tokens[len(rows)]}
			if now.position != int(b.Positions[first])+len(rows)-first {
				m.t.Fatalf("positions of a sequence are not successive: %v", b.Positions)
			}
			if now.position > 0 {
				before := m.cells[0][m.at(0, s, now.position-1)]
				now.before, now.text = before.token, before.text
			}
			now.text = hash(now.text, int(now.token))
			for g := range m.cells {
				m.cells[g][m.at(g, s, now.position)] = now
			}
			rows = append(rows, now)
		}
		m.check(s, rows[first:])
		if m.config.States.Layers > 0 {
			m.recur(s, rows[first:])
		}
	}
	m.texts = m.texts[:0]
	for _, row := range b.Outputs {
		m.texts = append(m.texts, rows[row])
	}
}

// check fails the test if a sequence's pages do not have its whole text.
func (m *simulated) check(s *compute.Seq, rows []cell) {
	if m.blind {
		return
	}
	last, text := rows[len(rows)-1], uint64(0)
	for p := range last.position + 1 {
		c := m.cells[0][m.at(0, s, p)]
		text = hash(text, int(c.token))
		if c.position != p || c.text != text {
			m.t.Fatalf("position %d of %d has token %d of another text or position %d", p, last.position+1, c.token, c.position)
		}
		for g := max(1, m.groups.Full); g < len(m.cells) && p > rows[0].position-m.groups.Window; g++ {
			if other := m.cells[g][m.at(g, s, p)]; other != c {
				m.t.Fatalf("position %d of %d in group %d is another one: %d", p, last.position+1, g, other.position)
			}
		}
	}
	for g := range max(1, m.groups.Full) {
		if m.cells[g][m.at(g, s, last.position)] != last {
			m.t.Fatalf("group %d", g)
		}
	}
}

// recur changes a recurrent state, and fails the test if it is not that of the sequence.
func (m *simulated) recur(s *compute.Seq, rows []cell) {
	at := s.State
	var from recurrentState
	if at.From >= 0 {
		from = m.states[at.From]
		if at.Accepted > 0 {
			from.positions, from.text = from.positions+at.Accepted, from.log[at.Accepted-1]
		}
	}
	first := rows[0]
	if at.From >= m.limits.States || at.Slot < 0 || at.Slot >= m.limits.States || at.Drafts > m.limits.Drafts || at.Drafts >= len(rows) || at.Prompt > len(rows)-at.Drafts {
		m.t.Fatalf("%d rows with state %+v", len(rows), at)
	}
	if from.positions != first.position || hash(from.text, int(first.token)) != first.text {
		m.t.Fatalf("the state is that after %d positions, and the row that of position %d: %+v", from.positions, first.position, at)
	}
	if at.Prompt > 0 && first.position%compute.ChunkRows != 0 {
		m.t.Fatalf("rows of a prompt begin at position %d", first.position)
	}
	whole := rows[len(rows)-1-at.Drafts]
	state := recurrentState{positions: whole.position + 1, text: whole.text}
	for _, row := range rows[len(rows)-at.Drafts:] {
		state.log = append(state.log, row.text)
	}
	m.states[at.Slot] = state
}

// logit returns a token's logit after a text. A few tokens are likely. Mostly they depend on the
// last two tokens, so that texts repeat themselves.
func (m *simulated) logit(c cell, id int32) float32 {
	key := c.text
	if key%4 != 0 {
		key = hash(hash(1, int(c.token)), int(c.before))
	}
	if m.wrong > 0 && c.text%m.wrong == 0 {
		key++
	}
	logit := float32(hash(hash(key, int(id)), 7)>>40) / (1 << 24) * 8
	if id >= 300 && id < 332 {
		logit += 8
	}
	return logit
}

func (m *simulated) allLogits(c cell) []float32 {
	logits := make([]float32, m.config.Vocab)
	for id := range logits {
		logits[id] = m.logit(c, int32(id))
	}
	return logits
}

// draw returns a row of compute.Step.Draw.
func (m *simulated) draw(c cell, d *compute.Draw) []float32 {
	if d.Given {
		return []float32{float32(d.Token), m.logit(c, d.Token), 0}
	}
	edits := map[int32]compute.Edit{}
	for _, e := range d.Edits {
		edits[e.Token] = e
	}
	row, highest, best := []float32{-1, 0, -compute.MaxLogit}, float32(-compute.MaxLogit), math.Inf(-1)
	for id := range int32(m.config.Vocab) {
		logit := m.logit(c, id)
		edited := logit
		if e, ok := edits[id]; ok {
			edited = d.Edited(logit, e)
		}
		if edited <= -compute.MaxLogit || len(d.Mask) > 0 && d.Mask[id/32]>>(id%32)&1 == 0 {
			continue
		}
		highest = max(highest, edited)
		key := float64(edited)
		if d.Temperature > 0 {
			key += 0.3 * d.Temperature * float64(hash(hash(hash(d.Seed, d.Position), d.Choice), int(id))>>40) / (1 << 24)
		}
		if key > best {
			best, row = key, []float32{float32(id), logit, 0}
		}
	}
	row[2] = highest
	return row
}

func (m *simulated) Forward(b *compute.Batch) ([][]float32, error) {
	m.pass(b)
	m.wait()
	return m.Logits(), nil
}

func (m *simulated) Logits() (all [][]float32) {
	for _, c := range m.texts {
		all = append(all, m.allLogits(c))
	}
	return all
}

// wait waits for a pass.
func (m *simulated) wait() {
	if m.took > 0 {
		<-time.After(m.took)
	}
}

func (m *simulated) Decode(b *compute.Batch, n int) error {
	next := *b
	m.drawn, m.best = m.drawn[:0], m.best[:0]
	if n > 1 && b.Prepare == nil {
		m.t.Fatal("a run needs Prepare")
	}
	for i := range n {
		if b.Interrupted() {
			return nil
		}
		m.pass(&next)
		more := b.Prepare != nil && b.Prepare(i) // while the device computes the pass
		m.wait()
		next.Draws = b.Draws
		var drawn, best [][]float32
		for o, c := range m.texts {
			if len(next.Draws) > 0 {
				drawn = append(drawn, m.draw(c, &next.Draws[o]))
			}
			if b.Top > 0 {
				logits := m.allLogits(c)
				sum, _ := sample.LogSumExp(logits)
				row := make([]float32, 2*b.Top+1)
				for k, id := range sample.Top(nil, logits, b.Top) {
					row[k], row[b.Top+k] = float32(id), logits[id]
				}
				row[2*b.Top] = float32(sum)
				best = append(best, row)
			}
		}
		m.drawn, m.best = append(m.drawn, drawn), append(m.best, best)
		if !more || i == n-1 {
			return nil
		}
		m.follow(&next)
	}
	return nil
}

// follow makes the batch of the next step of a run: the next position of each sequence, with the
// token that was drawn.
func (m *simulated) follow(next *compute.Batch) {
	outputs := next.Outputs
	if len(outputs) != len(next.Seqs) {
		m.t.Fatalf("%d sequences of a run have %d outputs", len(next.Seqs), len(outputs))
	}
	var tokens, positions, all []int32
	var seqs []compute.Seq
	row := -1
	for i, s := range next.Seqs {
		row += s.Rows
		if int(outputs[i]) != row {
			m.t.Fatalf("output %d of a run is that of row %d, not of row %d", i, outputs[i], row)
		}
		token := int32(m.drawn[len(m.drawn)-1][i][0])
		tokens, positions, all = append(tokens, token), append(positions, next.Positions[row]+1), append(all, int32(i))
		s.Rows, s.State = 1, compute.SeqState{From: s.State.Slot, Slot: s.State.Slot}
		seqs = append(seqs, s)
	}
	next.Tokens, next.Positions, next.Seqs, next.Outputs = tokens, positions, seqs, all
}

func (m *simulated) Drawn(i int) [][]float32 { return m.drawn[i] }

func (m *simulated) Best(i int) [][]float32 { return m.best[i] }
