package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// Draw implements compute.Step.
func (s *step) Draw(dst, logits compute.Tensor, draws []compute.Draw, earlier compute.Tensor, steps int) {
	t := &s.byRow
	t.dst, t.src, t.draws, t.earlier, t.steps = dst, logits, draws, earlier, steps
	t.run((*rowsTask).draw, dst.Rows, logits.Cols)
	t.draws = nil
}

func (t *rowsTask) draw(thread, r int) {
	own := drawing{Backend: t.step.Backend, draw: &t.draws[r], logits: row(t.src, r), memory: &t.step.scratch[thread]}
	if t.steps > 0 && own.draw.Penalises() {
		own.earlier = own.memory.earlier[:0]
		for i := range t.steps {
			own.earlier = append(own.earlier, int32(row(t.earlier, i*(t.earlier.Rows/t.steps)+r)[0]))
		}
		own.memory.earlier = own.earlier
	}
	own.run(row(t.dst, r))
}

// drawing draws the token of a row.
type drawing struct {
	*Backend
	draw    *compute.Draw
	logits  []float32
	memory  *scratch
	earlier []int32 // tokens of earlier steps in flight

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

// edit changes the logits by the edits and by the tokens of earlier steps, and records the logits
// before.
func (d *drawing) edit() {
	for i := range d.draw.Edits {
		d.editOne(d.draw.Edits[i])
	}
	for i, id := range d.earlier {
		if d.countBefore(i) == 0 && !d.hasEdit(id) {
			d.editOne(compute.Edit{Token: id})
		}
	}
	if len(d.draw.Mask) == 0 {
		return
	}
	for i, l := range d.logits {
		if d.draw.Mask[i/32]>>(i%32)&1 == 0 {
			d.logits[i] = d.draw.Edited(l, compute.Edit{Excluded: true}, 0)
		}
	}
}

func (d *drawing) editOne(e compute.Edit) {
	count := e.Count
	for _, id := range d.earlier {
		if id == e.Token {
			count++
		}
	}
	logit := d.logits[e.Token]
	d.memory.raw = append(d.memory.raw, edited{e.Token, logit})
	d.logits[e.Token] = d.draw.Edited(logit, e, count)
}

// countBefore returns how often the i-th earlier token occurs among the tokens before it.
func (d *drawing) countBefore(i int) (n int) {
	for _, id := range d.earlier[:i] {
		if id == d.earlier[i] {
			n++
		}
	}
	return n
}

func (d *drawing) hasEdit(id int32) bool {
	for i := range d.draw.Edits {
		if d.draw.Edits[i].Token == id {
			return true
		}
	}
	return false
}

func (d *drawing) raw(id int) float32 {
	for _, r := range d.memory.raw {
		if int(r.id) == id {
			return r.logit
		}
	}
	return d.logits[id]
}

func (d *drawing) findBest() {
	a := &d.memory.peak
	a.X, a.N = &d.logits[0], int64(len(d.logits))
	d.kernels.Peak(a)
	d.best, d.bestID, d.scale = float32(a.Value), int(a.ID), d.draw.Scale()
	_, d.highest = compute.Weigh(d.best, d.scale)
}

// weigh computes the weights of the logits [from, to) that are not below lowest. It returns their
// sum. out can be nil.
func (d *drawing) weigh(from, to int, lowest float32, top int32, out []uint64) uint64 {
	a := &d.memory.weigh
	a.X, a.N, a.Scale, a.Lowest, a.Top, a.Out = &d.logits[from], int64(to-from), float64(d.scale), float64(lowest), int64(top), nil
	if out != nil {
		a.Out = &out[0]
	}
	d.kernels.Weigh(a)
	return a.Sum
}

// drawPart is the sum of the weights of compute.DrawPart successive tokens. exponent is that of
// their highest logit, to which the weights refer.
type drawPart struct {
	sum      uint64
	exponent int32
}

// lowestDrawn is the lowest logit of tokens that can be drawn.
var lowestDrawn = math.Nextafter32(-compute.MaxLogit, 0)

// fromAll draws from all tokens.
func (d *drawing) fromAll() int {
	m := d.memory
	m.parts = m.parts[:0]
	total := uint64(0)
	for from := 0; from < len(d.logits); from += compute.DrawPart {
		to := min(from+compute.DrawPart, len(d.logits))
		m.peak.X, m.peak.N = &d.logits[from], int64(to-from)
		d.kernels.Peak(&m.peak)
		_, exponent := compute.Weigh(float32(m.peak.Value), d.scale)
		sum := d.weigh(from, to, lowestDrawn, exponent, nil)
		m.parts = append(m.parts, drawPart{sum, exponent})
		total += sum >> d.shift(exponent)
	}
	target := d.draw.Target(total)
	for i, p := range m.parts {
		shift := d.shift(p.exponent)
		if target >= p.sum>>shift {
			target -= p.sum >> shift
			continue
		}
		from := i * compute.DrawPart
		to := min(from+compute.DrawPart, len(d.logits))
		m.weights = grow(m.weights, compute.DrawPart)
		d.weigh(from, to, lowestDrawn, p.exponent, m.weights)
		return from + reach(m.weights[:to-from], (target+1)<<shift-1)
	}
	return d.bestID // not reached: target is less than total
}

func (d *drawing) shift(exponent int32) uint32 { return min(uint32(d.highest-exponent), 63) }

// reach returns the index of the first weight with which the sum of weights exceeds target.
func reach(weights []uint64, target uint64) int {
	sum := uint64(0)
	for i, w := range weights {
		if sum += w; sum > target {
			return i
		}
	}
	return len(weights) - 1
}
