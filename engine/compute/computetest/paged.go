package computetest

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

type pagedSequences struct {
	shape    compute.AttentionShape
	keyCols  int
	valCols  int // 0 if the values are the first columns of the keys
	kind     gguf.Type
	freqs    compute.RopeFreqs
	pageSize int
	// Optional parts of grouped-query attention; nil for none.
	bias, queryNorm, keyNorm, sinks *matrix
	unrotated                       bool
	valueNorm, valuesFromKeys       bool
	parts                           int // layers that share the memory of one layer; 0 for one
	// lines are the rows whose keys and values are stored: [sequence][position][column].
	lines [][][]float32
	// shared is the number of whole pages that each sequence shares with the first sequence:
	// [sequence].
	shared []int
	// store calls RopeStore or Latents with the rows of t.
	store  func(s compute.Step, t compute.Tensor, rope compute.Rope, cache compute.Cache, layer int)
	stored func(line []float32, position int) (key, value []float64)
}

type seqRow struct{ seq, position int }

// drawLines fills the sequences with random lines. Later sequences may begin with pages of the
// first sequence.
func (r *rig) drawLines(c *pagedSequences, cols int, lengths ...int) {
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

func (c *pagedSequences) pages() (pages int) {
	for _, lines := range c.lines {
		pages += (len(lines) + c.pageSize - 1) / c.pageSize
	}
	return pages + 3
}

func (r *rig) rope(c *pagedSequences) compute.Rope {
	return r.newRope(c.freqs, c.pages()*c.pageSize)
}

// freqs returns the frequencies for rotating dims values of a head. Some rotations are scaled, as
// with YaRN, and are those of the next position.
func (r *rig) freqs(dims int) compute.RopeFreqs {
	f := compute.RopeFreqs{Freqs: make([]float32, dims/2), Scale: 1}
	for i := range f.Freqs {
		f.Freqs[i] = float32(math.Pow(10000, -float64(2*i)/float64(dims)))
	}
	if r.rand.IntN(2) == 0 {
		f.Scale, f.First = 1.25, 1
	}
	return f
}

// memory is a cache that holds the sequences of a check in one of its layers.
type memory struct {
	cache  compute.Cache
	group  int       // one of layerGroups groups
	layer  int       // in the group
	pages  [][]int32 // [sequence] page table of the layer's group
	others []int32   // a page table of the other groups
	spare  int32     // a page that belongs to no sequence
}

// layerGroups is the number of groups of layers. Each group has a separate page table.
const layerGroups = 3

func (m *memory) batch(rows []seqRow) *compute.Batch {
	b := batch(rows, m.pages)
	for i := range b.Seqs {
		seq := &b.Seqs[i]
		tables := slices.Repeat([][]int32{m.others}, layerGroups)
		tables[m.group] = seq.Pages
		seq.Pages, seq.Further = tables[0], tables[1:]
	}
	return b
}

// slide changes the page tables of a batch as if pages before the sliding windows had been freed:
// these entries become m.spare.
func (m *memory) slide(b *compute.Batch, shape compute.AttentionShape) {
	first := 0
	for i := range b.Seqs {
		tables := append([][]int32{b.Seqs[i].Pages}, b.Seqs[i].Further...)
		pages := &tables[m.group]
		*pages = slices.Clone(*pages)
		for page := range shape.First(int(b.Positions[first])) / m.cache.Shape().PageSize {
			(*pages)[page] = m.spare
		}
		b.Seqs[i].Pages, b.Seqs[i].Further = tables[0], tables[1:]
		first += b.Seqs[i].Rows
	}
}

// storeAll stores the sequences in a new cache, on pages in random order. Each step stores a few
// rows of some sequences. All other slots hold large values, so that a read from a wrong slot
// changes the result.
func (r *rig) storeAll(c *pagedSequences, rope compute.Rope) *memory {
	const layers = 2
	pages := c.pages()
	parts := max(c.parts, 1)
	m := &memory{group: r.rand.IntN(layerGroups)}
	shape := compute.CacheShape{Layers: layers, Pages: pages, PageSize: c.pageSize, KeyCols: parts * c.keyCols, ValueCols: parts * c.valCols, Type: c.kind}
	if parts > 1 {
		shape.Parts = slices.Repeat([]int{1}, layerGroups)
		shape.Parts[m.group] = parts
	}
	m.layer = m.group*layers*parts + r.rand.IntN(layers*parts)
	m.cache = r.newCache(shape)
	r.fillSlots(c, rope, m, layers*parts)
	free := r.rand.Perm(pages)
	for _, page := range r.rand.Perm(pages) {
		m.others = append(m.others, int32(page))
	}
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
	m.spare = int32(free[0])
	at, left := make([]int, len(c.lines)), 0 // [sequence] the next position to store; number of positions to store
	for i, lines := range c.lines {
		at[i] = c.shared[i] * c.pageSize
		left += len(lines) - at[i]
	}
	for left > 0 {
		var rows []seqRow
		var lines [][]float32
		for _, i := range r.rand.Perm(len(at)) {
			for range min(r.rand.IntN(20)*r.among(1, 10), len(c.lines[i])-at[i]) {
				rows, lines = append(rows, seqRow{i, at[i]}), append(lines, c.lines[i][at[i]])
				at[i]++
			}
		}
		if left -= len(rows); len(rows) > 0 {
			t := r.sheet(lines)
			r.run(m.batch(rows), func(s compute.Step) { c.store(s, t.Tensor, rope, m.cache, m.layer) }, t)
		}
	}
	return m
}

// fillSlots writes large values to all slots of the memory's group, which has the given number of
// layers.
func (r *rig) fillSlots(c *pagedSequences, rope compute.Rope, m *memory, layers int) {
	slots := m.cache.Shape().Pages * c.pageSize
	table := make([]int32, m.cache.Shape().Pages)
	for i := range table {
		table[i] = int32(i)
	}
	const rows = 64
	lines := r.normal(min(rows, slots), len(c.lines[0][0]))
	for _, line := range lines {
		for j := range line {
			line[j] = 30 * (line[j] + 1)
		}
	}
	t := r.sheet(lines)
	for from := 0; from < slots; from += rows {
		var seqRows []seqRow
		for p := from; p < min(from+rows, slots); p++ {
			seqRows = append(seqRows, seqRow{0, p})
		}
		filled := memory{cache: m.cache, group: m.group, pages: [][]int32{table}, others: table}
		r.step(filled.batch(seqRows), func(s compute.Step) {
			for layer := range layers {
				c.store(s, t.Head(len(seqRows)), rope, m.cache, m.group*layers+layer)
			}
		})
	}
}

// slot has the key and the value that a cache stores for a position. keySteps and valueSteps have
// the rounding step of each number: the distance between neighbouring codes in its block; 0 for
// floats.
type slot struct{ key, value, keySteps, valueSteps []float64 }

func (c *pagedSequences) slots() [][]slot {
	var all [][]slot
	for _, lines := range c.lines {
		var slots []slot
		for p, line := range lines {
			var s slot
			key, value := c.stored(line, p)
			s.key, s.keySteps = roundTrip(c.kind, key)
			if c.valCols > 0 {
				s.value, s.valueSteps = roundTrip(c.kind, value)
			} else {
				s.value, s.valueSteps = s.key[:len(value)], s.keySteps[:len(value)]
			}
			slots = append(slots, s)
		}
		all = append(all, slots)
	}
	return all
}

// roundTrip encodes x as type t and decodes it again. It returns the decoded values, and for each
// value the distance between neighbouring codes in its block. Float types are not rounded here: it
// returns x itself and distances of 0, because the callers' tolerances already allow for that
// rounding.
func roundTrip(t gguf.Type, x []float64) (values, steps []float64) {
	steps = make([]float64, len(x))
	if t.BlockSize() == 1 {
		return x, steps
	}
	narrow := make([]float32, len(x))
	for i, v := range x {
		narrow[i] = float32(v)
	}
	data := encode(t, narrow)
	gguf.Dequantise(narrow, t, data)
	values = make([]float64, len(x))
	for i, v := range narrow {
		scale := gguf.F16ToF32(binary.LittleEndian.Uint16(data[i/t.BlockSize()*t.BlockBytes():]))
		values[i], steps[i] = float64(v), math.Abs(float64(scale))
	}
	return values, steps
}

func batch(rows []seqRow, pages [][]int32) *compute.Batch {
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

// drawRows draws the last few positions of each sequence. groups has the indices of each sequence's
// rows.
func (r *rig) drawRows(c *pagedSequences) (rows []seqRow, groups [][]int) {
	for i, lines := range c.lines {
		n := 1
		if r.rand.IntN(2) == 0 {
			n = r.among(1, min(len(lines), 12))
		}
		var group []int
		for p := len(lines) - n; p < len(lines); p++ {
			group = append(group, len(rows))
			rows = append(rows, seqRow{i, p})
		}
		groups = append(groups, group)
	}
	return rows, groups
}
