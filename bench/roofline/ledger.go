package roofline

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

// Dispatch has the minimum work of a dispatch of a step.
type Dispatch struct {
	Kernel string  // name of the kernel, without the type of its weights or pages and its geometry
	Type   string  // type of its weights or pages; empty for kernels of activations alone
	Groups int     // number of threadgroups
	Bytes  float64 // bytes of the weights, cached positions and logits that it reads, each counted once
	Macs   float64 // number of multiply-adds with weights or cached values
}

// ledger is a device that passes every call to another device and lists the dispatches of a step
// with their minimum work. It computes the work from the sizes of a dispatch's buffers.
type ledger struct {
	metal.Device
	shape         Step
	experts, used int // number of experts of a layer, and number that each row uses
	slots         int // number of positions in a layer of the cache

	kernels map[metal.Pipeline]kernel
	sizes   map[metal.Buffer]int
	step    []Dispatch
	rows    int // number of rows of the next dispatch
}

// kernel is a function of a Metal library. kind is the type of its weights or pages. The attention
// kernels for heads of up to 128 values and for heads of up to 512 values have different names, but
// the same family.
type kernel struct{ name, family, kind string }

func newLedger(dev metal.Device, f *gguf.File, architecture string, s Step) (*ledger, error) {
	l := &ledger{Device: dev, shape: s, kernels: map[metal.Pipeline]kernel{}, sizes: map[metal.Buffer]int{}}
	for key, to := range map[string]*int{"expert_count": &l.experts, "expert_used_count": &l.used} {
		n, err := f.Meta().Uint(architecture + "." + key)
		if err != nil && !errors.Is(err, gguf.ErrMissing) {
			return nil, err
		}
		*to = int(n)
	}
	return l, nil
}

// Info implements metal.Device. It turns off the kernels that run only on other GPUs than Apple's.
func (l *ledger) Info() metal.Info {
	info := l.Device.Info()
	info.NvidiaKernels = false
	return info
}

// functionName has the parts of a function's name: kernel, type of weights or pages, values per
// lane of attention, geometry.
var functionName = regexp.MustCompile(`^(.+?)_(` + strings.Join(slices.Collect(maps.Keys(types)), "|") + `)(_[vc]\d+)?(_[a-z0-9_]+)?$`)

var types = func() map[string]gguf.Type {
	byName := map[string]gguf.Type{}
	for _, t := range gguf.Types() {
		byName[t.String()] = t
	}
	return byName
}()

func (l *ledger) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	p, err := l.Device.Pipeline(lib, function, constants)
	k := kernel{name: function, family: function}
	if m := functionName.FindStringSubmatch(function); m != nil {
		k = kernel{m[1] + m[3], m[1], m[2]}
	}
	l.kernels[p] = k
	return p, err
}

func (l *ledger) NewBuffer(bytes int, storage metal.Storage) (metal.Buffer, error) {
	b, err := l.Device.NewBuffer(bytes, storage)
	l.sizes[b] = bytes
	return b, err
}

func (l *ledger) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	for i := range work {
		l.step = append(l.step, l.of(&work[i]))
	}
	return l.Device.Submit(work)
}

// weights has, for each kernel, how many of its first buffers are weights. The buffers with routed
// experts are first, and the step reads only the experts that its rows use. The buffers with other
// weights follow. Small weights, such as norms and biases, are not counted.
var weights = map[string]struct{ routed, others int }{
	metal.Product: {0, 3}, metal.GatedProduct: {0, 2}, metal.ProductTile: {0, 1}, metal.GatedTile: {0, 2}, metal.Absorb: {0, 1},
	metal.GatedExperts: {2, 2}, metal.ExpertsAdd: {1, 1}, metal.ExpertsDown: {1, 1}, metal.ExpertGatedTile: {2, 2}, metal.ExpertDownTile: {1, 1},
}

// of returns the minimum work of a dispatch.
func (l *ledger) of(w *metal.Dispatch) Dispatch {
	k := l.kernels[w.Pipeline]
	d := Dispatch{Kernel: k.name, Type: k.kind, Groups: w.Groups[0] * w.Groups[1] * w.Groups[2]}
	switch k.family {
	case "gather":
		l.rows = w.Groups[1] // all further dispatches have only the rows that reach the output head
	case "top_parts":
		d.Bytes = 4 * float64(argument(w, 0)) * float64(l.rows)
	case metal.Attention:
		d.Kernel += "_v" + strconv.Itoa(valuesOf(argument(w, 3)))
		l.attention(&d, w)
	case metal.AttentionTile:
		l.attention(&d, w)
	case metal.Absorb:
		if w.Groups[0] > 1 { // otherwise, this dispatch only rotates, and a separate one multiplies in tiles
			l.products(&d, k, w)
		}
	default:
		if !l.recurrent(&d, w) {
			l.products(&d, k, w)
		}
	}
	return d
}

// valuesOf returns the number of values per lane with which attention of few rows is measured:
// heads of MLA take longer than others.
func valuesOf(dim uint32) int {
	if dim > 128 {
		return 16
	}
	return 4
}

// products adds the work of the weights that a dispatch reads.
func (l *ledger) products(d *Dispatch, k kernel, w *metal.Dispatch) {
	count := weights[k.family]
	seen := map[metal.Buffer]bool{}
	for i := range min(count.routed+count.others, len(w.Buffers)) {
		b := w.Buffers[i].Buffer
		if seen[b] { // an unused binding repeats another buffer
			continue
		}
		seen[b] = true
		bytes, macs := float64(l.sizes[b]), float64(l.rows)*values(d.Type, l.sizes[b])
		if i < count.routed {
			bytes *= l.routedShare()
			macs *= float64(l.used) / float64(l.experts)
		}
		d.Bytes += bytes
		d.Macs += macs
	}
}

func values(kind string, bytes int) float64 {
	t := types[kind]
	return float64(bytes) / float64(t.BlockBytes()) * float64(t.BlockSize())
}

// routedShare returns the expected share of a layer's experts that at least one of the rows uses,
// if routing is uniform.
func (l *ledger) routedShare() float64 {
	return 1 - math.Pow(1-float64(l.used)/float64(l.experts), float64(l.rows))
}

// argument returns the i-th 32-bit argument of a dispatch. Package metal has the structs of the
// arguments.
func argument(w *metal.Dispatch, i int) uint32 { return binary.NativeEndian.Uint32(w.Args[4*i:]) }

// Indices of arguments of the attention kernels.
const (
	argHeads    = 0
	argKeyDim   = 2
	argValueDim = 3
	argWindow   = 10
)

func (l *ledger) attention(d *Dispatch, w *metal.Dispatch) {
	arg := func(i int) float64 { return float64(argument(w, i)) }
	position := float64(l.sizes[w.Buffers[1].Buffer])
	if keys, values := w.Buffers[1].Buffer, w.Buffers[2].Buffer; values != keys {
		position += float64(l.sizes[values])
	}
	position /= float64(l.slots)
	s, seen, seenByRows := l.shape, 0.0, 0.0
	window := arg(argWindow)
	for r := range s.Rows {
		n := float64(s.Context + r + 1)
		if window > 0 {
			n = min(n, window)
		}
		seen = max(seen, n)
		seenByRows += n
	}
	if window > 0 {
		seen = min(float64(s.Context+s.Rows), window+float64(s.Rows-1))
	}
	d.Bytes = float64(s.Sequences) * seen * position
	d.Macs = float64(s.Sequences) * seenByRows * arg(argHeads) * (arg(argKeyDim) + arg(argValueDim))
}
