package computetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// headShapes are shapes of grouped-query attention. They have one key head, a few key heads, or as
// many key heads as query heads. Some sizes are those of real models, others are odd. Heads are
// rotated completely or in part.
var headShapes = []headShape{
	{1, 1, 2, 1, 2, 1},
	{4, 4, 8, 8, 8, 16},
	{8, 2, 32, 32, 32, 16},
	{6, 1, 64, 64, 32, 32},
	{9, 3, 64, 64, 64, 16},
	{4, 2, 20, 12, 6, 3},
	{5, 1, 12, 7, 12, 5},
	{2, 1, 128, 128, 128, 16},
	{3, 1, 512, 512, 512, 16},
}

type headShape struct{ heads, kvHeads, key, value, rope, pageSize int }

func (r *rig) grouped(heads, kvHeads, key, value, dims, pageSize int, lengths ...int) *pagedSequences {
	q, k := heads*key, kvHeads*key
	c := &pagedSequences{
		shape:   compute.AttentionShape{Heads: heads, KVHeads: kvHeads, KeyDim: key, ValueDim: value, Scale: float32(1 / math.Sqrt(float64(key)))},
		keyCols: k, valCols: kvHeads * value, pageSize: pageSize, freqs: r.freqs(dims),
	}
	c.store = func(s compute.Step, t compute.Tensor, rope compute.Rope, cache compute.Cache, layer int) {
		if c.unrotated {
			rope = nil
		}
		s.RopeStore(t, c.projection(), c.shape, rope, cache, layer)
	}
	c.stored = func(line []float32, position int) (keys, values []float64) {
		done := c.roped(line, position)
		return numbers(done[q : q+k]), numbers(done[q+k:])
	}
	r.drawLines(c, q+k+c.valCols, lengths...)
	return c
}

// vary adds a bias or norms of heads, rotates halves of a head, or removes the rotation, depending
// on turn.
func (r *rig) vary(c *pagedSequences, turn int) {
	c.freqs.Halves = turn%2 == 1
	c.unrotated = turn%5 == 4
	if turn%3 != 0 {
		c.bias = r.matrix(gguf.TypeF32, len(c.lines[0][0]))
	}
	if turn%4 != 0 {
		c.queryNorm, c.keyNorm = r.matrix(gguf.TypeF32, c.shape.KeyDim), r.matrix(gguf.TypeF32, c.shape.KeyDim)
	}
	c.valueNorm = turn%3 == 1
	c.valuesFromKeys = turn%4 >= 2 && c.shape.KeyDim == c.shape.ValueDim
}

const headEps = 1e-3

func (c *pagedSequences) projection() compute.Projection {
	return compute.Projection{Eps: headEps, Bias: c.bias.optional(), QueryNorm: c.queryNorm.optional(), KeyNorm: c.keyNorm.optional(), ValueNorm: c.valueNorm, ValuesFromKeys: c.valuesFromKeys}
}

// roped returns the row of queries, keys and values that is expected after RopeStore. line is the
// row before RopeStore.
func (c *pagedSequences) roped(line []float32, position int) []approx {
	out := exactly(line)
	if c.bias != nil {
		for i, b := range c.bias.values {
			out[i] = out[i].plus(approx{value: float64(b)})
		}
	}
	queries, keys := c.shape.Heads*c.shape.KeyDim, c.shape.KVHeads*c.shape.KeyDim
	values := out[queries+keys : queries+keys+c.shape.KVHeads*c.shape.ValueDim]
	if c.valuesFromKeys {
		copy(values, out[queries:])
	}
	for at := 0; c.valueNorm && at < len(values); at += c.shape.ValueDim {
		normHead(values[at:at+c.shape.ValueDim], slices.Repeat([]float32{1}, c.shape.ValueDim))
	}
	for at := 0; at < queries+keys; at += c.shape.KeyDim {
		head := out[at : at+c.shape.KeyDim]
		if c.queryNorm != nil {
			gain := c.queryNorm
			if at >= queries {
				gain = c.keyNorm
			}
			normHead(head, gain.values)
		}
		if !c.unrotated {
			c.rotate(head, position)
		}
	}
	return out
}

// normHead norms a head in place. The tolerances of the results include the errors of the head's
// values and of the sum of their squares.
func normHead(head []approx, gain []float32) {
	square, off := 0.0, 0.0
	for _, v := range head {
		square += v.value * v.value
		off += 2 * math.Abs(v.value) * v.tol
	}
	n := float64(len(head))
	scale := 1 / math.Sqrt(square/n+headEps)
	relative := (n+16)*float32Step + off/n*scale*scale
	for i, v := range head {
		g := math.Abs(float64(gain[i])) * scale
		head[i] = approx{v.value * scale * float64(gain[i]), v.tol*g + relative*math.Abs(v.value)*g + tiny}
	}
}

func (c *pagedSequences) rotate(head []approx, position int) {
	for i, f := range c.freqs.Freqs {
		first, second := 2*i, 2*i+1
		if c.freqs.Halves {
			first, second = i, i+len(c.freqs.Freqs)
		}
		head[first], head[second] = rotated(head[first], head[second], float64(position+c.freqs.First)*float64(f), float64(c.freqs.Scale))
	}
}

func numbers(x []approx) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v.value
	}
	return out
}

// checkRopeStore compares the rows after the operation. checkAttention covers the stored keys and
// values.
func checkRopeStore(r *rig) {
	for i, h := range append([]headShape{{4, 1, 64, 64, 32, 16}, {3, 3, 48, 16, 40, 4}}, headShapes...) {
		c := r.grouped(h.heads, h.kvHeads, h.key, h.value, h.rope, h.pageSize, r.lengths(h.pageSize)...)
		r.vary(c, i)
		r.verifyStore(fmt.Sprintf("store heads %+v, bias %v, norms %v, halves %v, unrotated %v, values normed %v, values from keys %v",
			h, c.bias != nil, c.queryNorm != nil, c.freqs.Halves, c.unrotated, c.valueNorm, c.valuesFromKeys), c, c.roped)
	}
	r.checkQueries()
	r.checkStoredHeads()
}

// checkStoredHeads stores heads whose sizes are multiples of 32, with biases, norms and both kinds
// of pairs, and attends to them.
func (r *rig) checkStoredHeads() {
	if !slices.Contains(r.pages, gguf.TypeF16) {
		return
	}
	shapes := []headShape{{2, 1, 128, 128, 64, 16}, {3, 1, 64, 64, 64, 16}, {4, 2, 128, 64, 128, 16}, {2, 1, 256, 256, 256, 16}, {2, 1, 512, 512, 512, 16}}
	for i, first := range []int{0, 2, 4, 6, 10} { // the turn after each rotates halves
		for _, turn := range []int{first, first + 1} {
			h := shapes[i]
			c := r.grouped(h.heads, h.kvHeads, h.key, h.value, h.rope, h.pageSize, 20, 1)
			r.vary(c, turn)
			c.kind = gguf.TypeF16
			what := fmt.Sprintf("stored heads %+v, variant %d", h, turn)
			r.verifyStore(what, c, c.roped)
			if c.freqs.Halves {
				r.verifyAttention(what, c)
			}
		}
	}
}

// checkQueries rotates rows that have only queries. Nothing is stored.
func (r *rig) checkQueries() {
	c := r.grouped(3, 1, 64, 64, 64, 16, r.lengths(16)...)
	r.vary(c, 1)
	c.bias, c.valueNorm, c.valuesFromKeys = nil, false, false
	rope, attended := r.rope(c), c.shape
	c.shape.KVHeads = 0
	rows, groups := r.drawRows(c)
	q := r.normal(len(rows), 3*64)
	m := &memory{cache: r.newCache(compute.CacheShape{Layers: 1, Pages: c.pages(), PageSize: c.pageSize, KeyCols: 64, ValueCols: 64})}
	for range c.lines {
		m.pages = append(m.pages, make([]int32, c.pages()))
	}
	r.verify(operation{
		what:   fmt.Sprintf("rotate %d queries of %d values", attended.Heads, attended.KeyDim),
		groups: groups,
		compute: func(chosen []int) [][]float32 {
			t := r.sheet(pick(q, chosen))
			return r.run(m.batch(pick(rows, chosen)), func(s compute.Step) { s.RopeStore(t.Tensor, c.projection(), c.shape, rope, m.cache, 0) }, t)
		},
		compare: func(row int, got []float32) error { return within(got, c.roped(q[row], rows[row].position)) },
	})
}

// verifyStore checks RopeStore or Latents, whichever c.store calls. want returns the expected row
// after the operation.
func (r *rig) verifyStore(what string, c *pagedSequences, want func(line []float32, position int) []approx) {
	r.what = what
	rope := r.rope(c)
	m := r.storeAll(c, rope)
	rows, groups := r.drawRows(c)
	line := func(row int) []float32 { return c.lines[rows[row].seq][rows[row].position] }
	r.verify(operation{
		what:   what,
		groups: groups,
		compute: func(chosen []int) [][]float32 {
			var lines [][]float32
			for _, row := range chosen {
				lines = append(lines, line(row))
			}
			t := r.sheet(lines)
			return r.run(m.batch(pick(rows, chosen)), func(s compute.Step) { c.store(s, t.Tensor, rope, m.cache, m.layer) }, t)
		},
		compare: func(row int, got []float32) error { return within(got, want(line(row), rows[row].position)) },
	})
}

// cacheTypes returns two types of a cache, chosen by turn. They have blocks only if keys and values
// are whole blocks.
func (r *rig) cacheTypes(turn, key, value int) []gguf.Type {
	all := slices.DeleteFunc(slices.Clone(r.pages), func(t gguf.Type) bool { return key%t.BlockSize() != 0 || value%t.BlockSize() != 0 })
	return []gguf.Type{all[turn%len(all)], all[(turn+1)%len(all)]}
}

func checkAttention(r *rig) {
	for i, h := range headShapes {
		for _, kind := range r.cacheTypes(i, h.key, h.value) {
			c := r.grouped(h.heads, h.kvHeads, h.key, h.value, h.rope, h.pageSize, r.lengths(h.pageSize)...)
			c.kind, c.parts = kind, 1<<(i%3)
			r.verifyAttention(fmt.Sprintf("attention of heads %+v, %d parts", h, c.parts), c)
		}
	}
	// Scores of a few hundred, whose exponentials are too large for float32.
	c := r.grouped(4, 2, 64, 64, 64, 16, 40, 1, 17)
	c.shape.Scale *= 50
	r.verifyAttention("attention of large scores", c)
	// Windows that are shorter and longer than the sequences, and sinks.
	for i, window := range []int{1, 3, 16, 17, 40, 100, 0} {
		c := r.grouped(4, 1+i%2, 32, 32, 32, 16, 60, 1, 33, 200, 16)
		c.shape.Window = window
		if i%3 != 1 {
			c.sinks = r.matrix(gguf.TypeF32, 4)
			c.shape.Sinks = c.sinks.weight
		}
		r.verifyAttention(fmt.Sprintf("attention to %d positions, sinks %v", window, c.sinks != nil), c)
	}
	for _, window := range []int{128, 300, 513} {
		c := r.grouped(2, 1, 16, 16, 16, 16, 1100, 256, 257, 512, 30)
		c.shape.Window = window
		c.sinks = r.matrix(gguf.TypeF32, 2)
		c.shape.Sinks = c.sinks.weight
		r.verifyAttention(fmt.Sprintf("attention to %d of 1100 positions", window), c)
	}
	// The sizes of heads of real models, with windows, sinks and several types of cache.
	for i, dim := range []int{96, 128, 256, 512} {
		for j, kind := range r.cacheTypes(1+i, dim, dim) {
			c := r.grouped(2+2*j, 1+i%2, dim, dim, 32, 16, 290, 30, 1)
			c.kind = kind
			c.shape.Window = []int{0, 128, 50}[(i+j)%3]
			if (i+j)%2 == 0 {
				c.sinks = r.matrix(gguf.TypeF32, c.shape.Heads)
				c.shape.Sinks = c.sinks.weight
			}
			r.verifyAttention(fmt.Sprintf("attention of heads of %d values to %d positions, sinks %v", dim, c.shape.Window, c.sinks != nil), c)
		}
	}
	// Sequences that are long enough for a backend to split their positions into parts. The last
	// part is full for some and has one position for others.
	r.verifyAttention("attention over 1100 positions", r.grouped(2, 1, 16, 16, 16, 16, 1100, 256, 257, 512, 513, 30))
}

// verifyAttention stores the sequences twice, in different pages and steps. Successive computations
// use the two copies alternately: results must not depend on where a sequence is stored.
func (r *rig) verifyAttention(what string, c *pagedSequences) {
	r.what = what
	rope := r.rope(c)
	memories := []*memory{r.storeAll(c, rope), r.storeAll(c, rope)}
	slots := c.slots()
	rows, groups := r.drawRows(c)
	q := r.normal(len(rows), c.shape.Heads*c.shape.KeyDim+r.rand.IntN(2)*r.among(1, 40))
	for i := range q { // limited, so that the softmax has more than one large weight
		for j := range q[i] {
			q[i][j] = min(max(q[i][j], -2), 2)
		}
	}
	turn := 0
	r.verify(operation{
		what:   fmt.Sprintf("%s, %d rows of %d sequences, %v cache", what, len(rows), len(groups), c.kind),
		groups: groups,
		compute: func(chosen []int) [][]float32 {
			m := memories[turn%2]
			turn++
			in, out := r.sheet(pick(q, chosen)), r.blank(len(chosen), c.shape.Heads*c.shape.ValueDim)
			b := m.batch(pick(rows, chosen))
			m.slide(b, c.shape)
			return r.run(b, func(s compute.Step) {
				s.Attention(out.Tensor, in.Tensor, c.shape, m.cache, m.layer)
			}, out, in)
		},
		compare: func(row int, got []float32) error {
			p := rows[row]
			return within(got, c.attend(q[row], slots[p.seq][c.shape.First(p.position):p.position+1]))
		},
	})
}

// attend returns the expected attention of a row's heads to the given positions. An error of up to
// δ in the scores changes each weight by a factor of up to exp(2δ): exp(δ) for the score and exp(δ)
// for the sum. In a cache of a quantised type, rounding can move a few values to a neighbouring
// code.
func (c *pagedSequences) attend(q []float32, slots []slot) []approx {
	const flips = 3
	var out []approx
	s := c.shape
	for head := range s.Heads {
		kv := head / (s.Heads / s.KVHeads)
		query := q[head*s.KeyDim : (head+1)*s.KeyDim]
		scores := make([]float64, len(slots))
		delta, best, sum := 0.0, math.Inf(-1), 0.0
		for p, slot := range slots {
			squares, magnitude, flip := 0.0, 0.0, 0.0
			for i, k := range slot.key[kv*s.KeyDim : (kv+1)*s.KeyDim] {
				scaled := float64(s.Scale) * float64(query[i])
				scores[p] += scaled * k
				squares += scaled * k * scaled * k
				magnitude += math.Abs(scaled * k)
				flip = max(flip, math.Abs(scaled)*slot.keySteps[kv*s.KeyDim+i])
			}
			delta = max(delta, sigmas*float16Step*math.Sqrt(2*squares)+float64(s.KeyDim+16)*float32Step*magnitude+flips*flip)
			best = max(best, scores[p])
		}
		if c.sinks != nil {
			sink := float64(c.sinks.values[head])
			best = max(best, sink)
			sum = math.Exp(sink - best)
		}
		for p := range scores {
			scores[p] = math.Exp(scores[p] - best)
			sum += scores[p]
		}
		room := math.Expm1(2*delta) + 2*float16Step + 2*expStep + float64(len(slots)+16)*float32Step
		for j := range s.ValueDim {
			var v, magnitude, flip float64
			for p, weight := range scores {
				term := weight / sum * slots[p].value[kv*s.ValueDim+j]
				v += term
				magnitude += math.Abs(term)
				flip = max(flip, weight/sum*slots[p].valueSteps[kv*s.ValueDim+j])
			}
			out = append(out, approx{v, room*magnitude + flips*flip + tiny})
		}
	}
	return out
}
