package metal

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

const (
	drawThreads   = 256  // threads per part of a row in draw_parts (draw.metal)
	chooseThreads = 1024 // maximum number of threads per row in draw
	editThreads   = 128  // threads per row in draw_edits
	drawBuckets   = 1024
	drawPartInts  = 4 // values of four bytes per part
	editInts      = 4 // values of four bytes per edit
	// drawScratch is the minimum number of bytes of scratch memory: enough for the parts of the
	// largest vocabulary.
	drawScratch = 1 << 20
)

// The values of drawRowArgs.kind.
const (
	drawHighest = iota
	drawAll
	drawSome
	drawGiven
)

type drawArgs struct {
	cols, parts, srcStride, dstStride uint32
}

// drawRowArgs has a row's options in the form of the kernels.
type drawRowArgs struct {
	kind                            uint32
	scale                           float32
	randomLow, randomHigh           uint32
	margin                          float32
	topK, share, token              uint32
	edits, editCount, mask          uint32
	repetition, presence, frequency float32
}

const drawRowInts = 14

// The flags of an edit, next to its token.
const (
	editSeen     = 1 << 24
	editExcluded = 1 << 25
)

// drawing is the operation Draw.
type drawing struct {
	dst, logits compute.Tensor
	draws       []compute.Draw
}

func (c *collector) Draw(dst, logits compute.Tensor, draws []compute.Draw) {
	collect(c, &c.drawings, drawing{dst, logits, draws})
}

func drawOptions(d *compute.Draw) drawRowArgs {
	a := drawRowArgs{
		kind: drawSome, scale: d.Scale(), margin: d.Margin(), topK: uint32(d.TopK), share: d.Share(), token: uint32(d.Token),
		edits: math.MaxUint32, repetition: d.Repetition, presence: d.Presence, frequency: d.Frequency,
	}
	random := compute.Random(d.Seed, d.Position, d.Choice)
	a.randomLow, a.randomHigh = uint32(random), uint32(random>>32)
	switch {
	case d.Given:
		a.kind = drawGiven
	case d.Temperature == 0:
		a.kind = drawHighest
	case d.Whole():
		a.kind = drawAll
	}
	return a
}

// inputs writes the rows' options, and the lists of their edits and masks.
func (o *drawing) inputs(s *step) (rows, lists Binding, edits bool) {
	n := 0
	for i := range o.draws {
		d := &o.draws[i]
		n += len(d.Mask) + editInts*len(d.Edits)
		edits = edits || len(d.Edits) > 0
	}
	rows, options := s.take(drawRowInts * len(o.draws))
	lists, list := s.take(n)
	at := 0
	for i := range o.draws {
		d := &o.draws[i]
		a := drawOptions(d)
		if len(d.Mask) > 0 {
			a.mask = uint32(at + 1)
			at += copy(bytesOfInts(list[at:]), bytesOfInts(d.Mask)) / 4
		}
		if len(d.Edits) > 0 {
			a.edits, a.editCount = uint32(at), uint32(len(d.Edits))
			for _, e := range d.Edits {
				list[at], list[at+1], list[at+2] = e.Token, e.Count, int32(math.Float32bits(e.Bias))
				if e.Seen {
					list[at] |= editSeen
				}
				if e.Excluded {
					list[at] |= editExcluded
				}
				at += editInts
			}
		}
		copy(bytesOfInts(options[drawRowInts*i:]), bytesOf(&a))
	}
	return rows, lists, edits
}

func (o *drawing) portable(p *portable) {
	parts := (o.logits.Cols + compute.DrawPart - 1) / compute.DrawPart
	a := drawArgs{cols: uint32(o.logits.Cols), parts: uint32(parts), srcStride: uint32(o.logits.Stride), dstStride: uint32(o.dst.Stride)}
	rows, lists, edits := o.inputs(p.step)
	if edits {
		record(p.step, "draw_edits", p.kernels.drawEdits, grid{x: o.dst.Rows, y: 1, simdgroups: editThreads / 32}, &a, into(o.logits), rows, lists)
	}
	groups := min(max((o.logits.Cols+255)/256, 2), p.kernels.drawGroups)
	p.inParts(o.dst.Rows, drawPartInts*parts, func(from, to int) {
		rows := Binding{rows.Buffer, rows.Offset + 4*drawRowInts*from}
		src, dst := o.logits.Span(from, to), o.dst.Span(from, to)
		record(p.step, "draw_parts", p.kernels.drawParts, grid{x: parts, y: to - from, simdgroups: drawThreads / 32, shared: 8 * drawThreads / 32}, &a,
			at(src), rows, lists, p.scratch.write())
		record(p.step, "draw", p.kernels.draw, grid{x: to - from, y: 1, simdgroups: groups, shared: 16*groups + 8*drawBuckets}, &a,
			at(src), rows, lists, p.scratch.read(), into(dst))
	})
}
