package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// Draw implements compute.Step.
func (s *step) Draw(dst, logits compute.Tensor, draws []compute.Draw) {
	t := &s.byRow
	t.dst, t.src, t.draws = dst, logits, draws
	t.run((*rowsTask).draw, dst.Rows, logits.Cols)
	t.draws = nil
}

func (t *rowsTask) draw(thread, r int) {
	own := drawing{Backend: t.step.Backend, draw: &t.draws[r], logits: row(t.src, r), memory: &t.step.scratch[thread]}
	own.run(row(t.dst, r))
}

// drawing draws the token of a row.
type drawing struct {
	*Backend
	draw   *compute.Draw
	logits []float32
	memory *scratch

	best    float32 // the highest logit after the edits
	bestID  int
	scale   float32
	highest int32 // exponent of the highest logit
}

func (d *drawing) run(dst []float32) {
	d.memory.raw = d.memory.raw[:0]
	if d.draw.Given {
		dst[0], dst[1] = float32(d.draw.Token), d.logits[d.draw.Token]
	}
	d.edit()
	d.findBest()
	dst[2] = d.best
	if d.draw.Given {
		return
	}
	id := d.bestID
	switch {
	case d.draw.Temperature == 0 || !(math.Abs(float64(d.best)) < compute.MaxLogit):
	case d.draw.Whole():
		id = d.fromAll()
	default:
		id = d.fromSome()
	}
	dst[0], dst[1] = float32(id), d.raw(id)
}

// edited is a logit before its edit.
type edited struct {
	id    int32
	logit float32
}

// edit changes the logits by the edits, and records the logits before.
func (d *drawing) edit() {
	for _, e := range d.draw.Edits {
		logit := d.logits[e.Token]
		d.memory.raw = append(d.memory.raw, edited{e.Token, logit})
		d.logits[e.Token] = d.draw.Edited(logit, e)
	}
	if len(d.draw.Mask) == 0 {
		return
	}
	for i, l := range d.logits {
		if d.draw.Mask[i/32]>>(i%32)&1 == 0 {
			d.logits[i] = d.draw.Edited(l, compute.Edit{Excluded: true})
		}
	}
}

func (d *drawing) raw(id int) float32 {
	for _, r := range d.memory.raw {
		if int(r.id) == id {
			return r.logit
		}
	}
	return d.logits[id]
}

// findBest finds the highest logit of the row and, if the draw needs them, of each part.
func (d *drawing) findBest() {
	m := d.memory
	m.parts = m.parts[:0]
	d.scale = d.draw.Scale()
	size := len(d.logits)
	if d.draw.Temperature > 0 && !d.onlyTopP() {
		size = compute.DrawPart
	}
	d.best, d.bestID = float32(math.Inf(-1)), 0
	for from := 0; from < len(d.logits); from += size {
		m.peak.X, m.peak.N = &d.logits[from], int64(min(size, len(d.logits)-from))
		d.kernels.Peak(&m.peak)
		best := float32(m.peak.Value)
		if best > d.best {
			d.best, d.bestID = best, from+int(m.peak.ID)
		}
		m.parts = append(m.parts, drawPart{best: best})
	}
	_, d.highest = compute.Weigh(d.best, d.scale)
}

// weigh computes the weights of logits that are not below lowest. It returns their sum. out can be
// nil.
func (d *drawing) weigh(logits []float32, lowest float32, top int32, out []float32) uint64 {
	a := &d.memory.weigh
	a.X, a.N, a.Scale, a.Lowest, a.Top, a.Out = &logits[0], int64(len(logits)), float64(d.scale), float64(lowest), int64(top), nil
	if out != nil {
		a.Out = &out[0]
	}
	d.kernels.Weigh(a)
	return a.Sum
}

// parts returns the number of parts of the row.
func (d *drawing) parts() int { return (len(d.logits) + compute.DrawPart - 1) / compute.DrawPart }

// part returns the logits of a part of the row, compute.DrawPart successive tokens.
func (d *drawing) part(p int) []float32 {
	from := p * compute.DrawPart
	return d.logits[from:min(from+compute.DrawPart, len(d.logits))]
}

// drawPart describes a part of a row.
type drawPart struct {
	best     float32 // the highest logit
	exponent int32   // of the highest logit
	sum      uint64  // of the weights, which refer to that exponent
}

// lowestDrawn is the lowest logit of tokens that can be drawn.
var lowestDrawn = math.Nextafter32(-compute.MaxLogit, 0)

// fromAll draws from all tokens.
func (d *drawing) fromAll() int {
	m := d.memory
	total := uint64(0)
	for p := range m.parts {
		part := &m.parts[p]
		_, part.exponent = compute.Weigh(part.best, d.scale)
		part.sum = d.weigh(d.part(p), lowestDrawn, part.exponent, nil)
		total += part.sum >> d.shift(part.exponent)
	}
	target := d.draw.Target(total)
	for p, part := range m.parts {
		shift := d.shift(part.exponent)
		if target >= part.sum>>shift {
			target -= part.sum >> shift
			continue
		}
		return d.reach(p, lowestDrawn, part.exponent, (target+1)<<shift-1)
	}
	return d.bestID // not reached: target is less than total
}

func (d *drawing) shift(exponent int32) uint32 { return min(uint32(d.highest-exponent), 63) }

// reach returns the first token of a part with which the sum of the part's weights exceeds target.
func (d *drawing) reach(p int, lowest float32, top int32, target uint64) int {
	m, part := d.memory, d.part(p)
	m.weights = grow(m.weights, compute.DrawPart)
	d.weigh(part, lowest, top, m.weights)
	sum := uint64(0)
	for i := range part {
		if sum += uint64(m.weights[i]); sum > target {
			return p*compute.DrawPart + i
		}
	}
	return d.bestID // not reached: target is less than the sum of the weights
}
