package computetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// conversations is sequences that attend to themselves, and what keeps their keys and values.
type conversations struct {
	shape    compute.AttentionShape
	keyCols  int
	valCols  int // 0 where values are the leading values of keys
	kind     gguf.Type
	freqs    compute.RopeFreqs
	pageSize int
	// lines is what each position of each sequence stores, as the storing operation takes it: [sequence][position].
	lines [][][]float32
	// shared is how many whole pages a sequence has in common with the first one.
	shared []int
	// store is the operation that stores rows of t.
	store func(s compute.Step, t compute.Tensor, rope compute.Rope, cache compute.Cache, layer int)
	// stored is what it has to store of a line.
	stored func(line []float32, position int) (key, value []float64)
}

// place is a row: a position of a sequence.
type place struct{ seq, position int }

// speak fills the sequences with lines. Lengths lie on both sides of a page's end; later sequences may begin with pages of
// the first.
func (r *rig) speak(c *conversations, cols int, lengths ...int) {
	for i, n := range lengths {
		lines := r.normal(n, cols)
		common := 0
		if i > 0 {
			common = r.rand.IntN(min(n, lengths[0])/c.pageSize + 1)
			copy(lines[:common*c.pageSize], c.lines[0])
		}
		c.lines, c.shared = append(c.lines, lines), append(c.shared, common)
	}
}

// lengths draws lengths of some sequences.
func (r *rig) lengths(pageSize int) []int {
	lengths := make([]int, r.among(1, 5))
	for i := range lengths {
		lengths[i] = r.among(1, 45)
		if r.rand.IntN(3) == 0 {
			lengths[i] = pageSize * r.among(1, max(45/pageSize, 1))
		}
	}
	return lengths
}

// pages is the number that the sequences need, and some that they do not.
func (c *conversations) pages() (pages int) {
	for _, lines := range c.lines {
		pages += (len(lines) + c.pageSize - 1) / c.pageSize
	}
	return pages + 3
}

// rope makes the table of c's rotations.
func (r *rig) rope(c *conversations) compute.Rope {
	rope, err := r.be.Rope(c.freqs, c.pages()*c.pageSize)
	require.NoError(r.tb, err)
	return rope
}

// freqs is the rotations of dims values of a head; some are scaled, as YaRN does.
func (r *rig) freqs(dims int) compute.RopeFreqs {
	f := compute.RopeFreqs{Freqs: make([]float32, dims/2), Scale: 1}
	for i := range f.Freqs {
		f.Freqs[i] = float32(math.Pow(10000, -float64(2*i)/float64(dims)))
	}
	if r.rand.IntN(2) == 0 {
		f.Scale = 1.25
	}
	return f
}

// memory is the sequences in a cache.
type memory struct {
	cache compute.Cache
	layer int
	pages [][]int32
}

// remember stores the sequences in a new cache, on pages in random order, a few rows of some of them a step. All other
// slots hold values that would show in a result.
func (r *rig) remember(c *conversations, rope compute.Rope) (*memory, error) {
	const layers = 2
	pages := c.pages()
	m := &memory{layer: r.rand.IntN(layers)}
	var err error
	m.cache, err = r.be.Cache(compute.CacheShape{
		Layers: layers, Pages: pages, PageSize: c.pageSize, KeyCols: c.keyCols, ValueCols: c.valCols, Type: c.kind,
	})
	require.NoError(r.tb, err)
	if err := r.litter(c, rope, m, layers); err != nil {
		return nil, err
	}
	free := r.rand.Perm(pages)
	for i, lines := range c.lines {
		var table []int32
		if c.shared[i] > 0 {
			table = slices.Clone(m.pages[0][:c.shared[i]])
		}
		for len(table)*c.pageSize < len(lines) {
			table, free = append(table, int32(free[0])), free[1:]
		}
		m.pages = append(m.pages, table)
	}
	at := make([]int, len(c.lines)) // the next position of each
	for i := range at {
		at[i] = c.shared[i] * c.pageSize
	}
	for {
		var rows []place
		var lines [][]float32
		for _, i := range r.rand.Perm(len(at)) {
			for range min(r.rand.IntN(20)*r.among(1, 10), len(c.lines[i])-at[i]) {
				rows, lines = append(rows, place{i, at[i]}), append(lines, c.lines[i][at[i]])
				at[i]++
			}
		}
		if len(rows) > 0 {
			t := r.sheet(lines)
			if _, err := r.run(batch(rows, m.pages), func(s compute.Step) { c.store(s, t.Tensor, rope, m.cache, m.layer) }, t); err != nil {
				return nil, err
			}
		}
		if done(at, c.lines) {
			return m, nil
		}
	}
}

func done(at []int, lines [][][]float32) bool {
	for i, n := range at {
		if n < len(lines[i]) {
			return false
		}
	}
	return true
}

// litter stores something loud in every slot of every layer.
func (r *rig) litter(c *conversations, rope compute.Rope, m *memory, layers int) error {
	slots := m.cache.Shape().Pages * c.pageSize
	table := make([]int32, m.cache.Shape().Pages)
	for i := range table {
		table[i] = int32(i)
	}
	const rows = 64
	for from := 0; from < slots; from += rows {
		var places []place
		for p := from; p < min(from+rows, slots); p++ {
			places = append(places, place{0, p})
		}
		lines := r.normal(len(places), len(c.lines[0][0]))
		for _, line := range lines {
			for j := range line {
				line[j] = 30 * (line[j] + 1)
			}
		}
		t := r.sheet(lines)
		b := batch(places, [][]int32{table})
		for layer := range layers {
			step := r.be.Begin(b)
			c.store(step, t.Tensor, rope, m.cache, layer)
			if err := step.Run(); err != nil {
				return fmt.Errorf("fill a cache: %w", err)
			}
		}
	}
	return nil
}

// slot is what a cache keeps of a position, and the steps of these values: how far apart two neighbours of their type are
// in their block, 0 for floats.
type slot struct{ key, value, keySteps, valueSteps []float64 }

// slots is what a cache keeps of every position of every sequence.
func (c *conversations) slots() [][]slot {
	var all [][]slot
	for _, lines := range c.lines {
		var slots []slot
		for p, line := range lines {
			var s slot
			key, value := c.stored(line, p)
			s.key, s.keySteps = kept(c.kind, key)
			if c.valCols > 0 {
				s.value, s.valueSteps = kept(c.kind, value)
			} else {
				s.value, s.valueSteps = s.key[:len(value)], s.keySteps[:len(value)]
			}
			slots = append(slots, s)
		}
		all = append(all, slots)
	}
	return all
}

// kept is what is left of values in a type, and their steps. The float types have no steps: their rounding is within what
// a backend may do to any key or value.
func kept(t gguf.Type, x []float64) (values, steps []float64) {
	steps = make([]float64, len(x))
	if t.BlockSize() == 1 {
		return x, steps
	}
	narrow := make([]float32, len(x))
	for i, v := range x {
		narrow[i] = float32(v)
	}
	data := encode(t, narrow)
	gguf.Dequantize(narrow, t, data)
	values = make([]float64, len(x))
	for i, v := range narrow {
		scale := gguf.F16ToF32(binary.LittleEndian.Uint16(data[i/t.BlockSize()*t.BlockBytes():]))
		values[i], steps[i] = float64(v), math.Abs(float64(scale))
	}
	return values, steps
}

// batch is a batch of the given rows; those of a sequence stand together.
func batch(rows []place, pages [][]int32) *compute.Batch {
	b := &compute.Batch{}
	for i, p := range rows {
		b.Tokens = append(b.Tokens, int32(i))
		b.Positions = append(b.Positions, int32(p.position))
		if i == 0 || rows[i-1].seq != p.seq {
			b.Seqs = append(b.Seqs, compute.Seq{Pages: pages[p.seq]})
		}
		b.Seqs[len(b.Seqs)-1].Rows++
	}
	return b
}

// heard draws the rows of a step: the last position of some sequences, the last few of others.
func (r *rig) heard(c *conversations) (rows []place, groups [][]int) {
	for i, lines := range c.lines {
		n := 1
		if r.rand.IntN(2) == 0 {
			n = r.among(1, min(len(lines), 12))
		}
		var group []int
		for p := len(lines) - n; p < len(lines); p++ {
			group = append(group, len(rows))
			rows = append(rows, place{i, p})
		}
		groups = append(groups, group)
	}
	return rows, groups
}
