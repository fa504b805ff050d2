package metal

import (
	"errors"
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Backend implements compute.Backend on a Device. It records the operations of a step and submits
// them together.
type Backend struct {
	device   *compiler
	kernels  *kernelSet
	weights  []*weight // those with portable kernels
	caches   []*cache
	step     step
	recorder recorder
	// positions is the length of the longest RoPE table: the maximum number of positions of a
	// sequence.
	positions int
	// scratch has intermediate results of an operation, such as splits of attention that are not
	// joined yet. All operations share it. If it has no room for all rows of an operation, the
	// operation is done in parts.
	scratch room
	unified bool // Info.UnifiedMemory of the device
}

// Options are the settings of a backend. The zero value gives the defaults.
type Options struct {
	Mode     Mode
	Progress func(done, total int) // called when a kernel file is to be compiled or has been, one call at a time; may be nil
	Geometry Geometry              // choices that take precedence over DefaultGeometry
	// PlainTiles makes tiled kernels compute without simdgroup matrices.
	PlainTiles bool
}

// New returns a backend and compiles its kernels. The backend owns the device and closes it in
// Close. If New fails, it closes the device.
func New(dev Device, o Options) (*Backend, error) {
	b := &Backend{device: newCompiler(dev, o.Mode, o.Progress), unified: dev.Info().UnifiedMemory}
	err := b.device.startNvidia()
	if err == nil {
		b.kernels, err = newKernelSet(b.device, o.Geometry)
	}
	if err == nil {
		err = b.step.init(b)
	}
	if err == nil {
		b.recorder, err = newRecorder(b, o)
	}
	if err == nil {
		err = b.reserve(drawScratch)
	}
	if err == nil {
		err = b.chooseTiles(o.PlainTiles, o.Geometry)
	}
	if err != nil {
		return nil, fmt.Errorf("start the %s backend: %w", dev.Info().Driver, joinClose(err, b.device))
	}
	return b, nil
}

// Name implements compute.Backend.
func (b *Backend) Name() string { return b.device.Info().Driver }

// Device implements compute.Backend. The name includes modes other than Release, since results
// depend on the mode.
func (b *Backend) Device() string {
	name := b.device.Info().Name
	switch b.kernels.mode {
	case Debug:
		return name + ", debug kernels"
	case FastMath:
		return name + ", fast kernels"
	default:
		return name
	}
}

// Arithmetic implements compute.Backend. Kernels for NVIDIA round activations to 12 bits and sum in
// another order than the portable ones, whose sums have eight strands. The modes differ in how they
// are compiled.
func (b *Backend) Arithmetic() string {
	name := b.Name() + "-strands8"
	if b.device.Info().NvidiaKernels {
		name = b.Name() + "-nvidia12b"
	}
	switch b.kernels.mode {
	case Debug:
		name += "-debug"
	case FastMath:
		name += "-fast"
	case Release:
	}
	return name
}

// Free implements compute.Backend.
func (b *Backend) Free() (int64, error) {
	return int64(b.device.Info().Memory - b.device.Memory()), nil
}

// PlainTiles reports whether tiles are computed without simdgroup matrices. This is the case if
// Options.PlainTiles is set, or if the device's matrices sum in another order than the kernels for
// few rows.
func (b *Backend) PlainTiles() bool { return b.kernels.plainTiles }

// Counters returns the device's counters.
func (b *Backend) Counters() Counters { return b.device.Counters() }

// Close implements compute.Backend.
func (b *Backend) Close() error { return b.device.Close() }

// newBuffer makes a buffer. Errors begin with action. They wrap ErrMemory if the buffer does not
// fit.
func (b *Backend) newBuffer(bytes int, storage Storage, action string) (Buffer, error) {
	info := b.device.Info()
	if bytes > info.MaxBuffer {
		return 0, fmt.Errorf("%s: %w: the buffer needs %d bytes, but a buffer can have at most %d; lower --memory or --context, use --kv q8_0, or use a smaller model",
			action, ErrMemory, bytes, info.MaxBuffer)
	}
	if have := b.device.Memory(); have+bytes > info.Memory {
		return 0, fmt.Errorf("%s: %w: the buffer needs %d MiB, and %d of the device's %d MiB are in use; lower --memory or --context, use --kv q8_0, or use a smaller model",
			action, ErrMemory, bytes>>20, have>>20, info.Memory>>20)
	}
	buffer, err := b.device.NewBuffer(bytes, storage)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", action, err)
	}
	return buffer, nil
}

// weight is a tensor of a model on the device: a vector of float32, or matrices in the type of the
// file.
type weight struct {
	kind     gguf.Type
	shape    []int // as in the file
	in, out  int   // weights per row; rows per matrix
	matrices int   // more than 1 for weights of several experts or heads
	rowBytes int   // bytes of a row in the file
	buffer   Buffer
	kernels  *weightKernels // nil for a vector or a packed weight
}

func (w *weight) Type() gguf.Type { return w.kind }

func (w *weight) Shape() []int { return w.shape }

func (w *weight) self() *weight { return w }

func weightOf(w compute.Weight) *weight { return w.(interface{ self() *weight }).self() }

func newWeight(t gguf.Tensor, shape compute.WeightShape) *weight {
	return &weight{kind: t.Type, shape: t.Shape, in: shape.In, out: shape.Out, matrices: shape.Matrices, rowBytes: shape.RowBytes}
}

func (w *weight) fileBytes() int { return w.matrices * w.out * w.rowBytes }

// Weight implements compute.Backend. It copies the tensor to the device and does not retain the
// tensor's data.
func (b *Backend) Weight(t gguf.Tensor) (compute.Weight, error) {
	shape, err := compute.ShapeOf(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	w := newWeight(t, shape)
	if shape.Vector {
		return w, b.copyWeight(w, floatBytes(t.Values()), "tensor "+t.Name)
	}
	return b.recorder.load(w, t.Data, "tensor "+t.Name)
}

// Table implements compute.Backend.
func (b *Backend) Table(t gguf.Tensor) (compute.Weight, error) { return b.Weight(t) }

// copyWeight makes a weight's buffer. Errors begin with action.
func (b *Backend) copyWeight(w *weight, data []byte, action string) (err error) {
	if w.buffer, err = b.newBuffer(len(data), Private, action); err != nil {
		return err
	}
	if err := b.device.Upload(w.buffer, 0, data); err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

// memory holds the values of a step's tensor. The field Buffer of compute.Tensor refers to it.
type memory struct {
	buffer          Buffer
	rows            int
	cols            int
	version         int // number of dispatches that write to the buffer
	*compute.Values     // the values for the CPU; without unified memory, a copy, which the first call of Floats allocates
}

// Buffer implements compute.Backend. With unified memory, CPU and GPU share the buffer, so that
// results need no copy.
func (b *Backend) Buffer(rows, cols int) (compute.Tensor, error) {
	if rows < 1 || cols < 1 {
		return compute.Tensor{}, fmt.Errorf("allocate %d by %d values for a step: both numbers must be at least 1", rows, cols)
	}
	if err := b.recorder.reserveActivations(rows, cols); err != nil {
		return compute.Tensor{}, err
	}
	storage := Private
	if b.unified {
		storage = Shared
	}
	buffer, err := b.newBuffer(4*rows*cols, storage, fmt.Sprintf("allocate %d by %d values for a step", rows, cols))
	if err != nil {
		return compute.Tensor{}, err
	}
	m := &memory{buffer: buffer, rows: rows, cols: cols}
	if b.unified {
		m.Values = compute.NewValues(valuesOf[float32](b.device.Contents(buffer)), cols)
	}
	return compute.Tensor{Buffer: m, Rows: rows, Cols: cols, Stride: cols}, nil
}

// Floats implements compute.Backend.
func (b *Backend) Floats(t compute.Tensor) [][]float32 {
	m := t.Buffer.(*memory)
	if !b.unified {
		b.fetch(m, t)
	}
	return m.Rows(t)
}

// fetch copies the values of t from the device. If the copy fails, the values become NaN, and the
// next step returns the error.
func (b *Backend) fetch(m *memory, t compute.Tensor) {
	if m.Values == nil {
		m.Values = compute.NewValues(make([]float32, m.rows*m.cols), m.cols)
	}
	if t.Rows == 0 {
		return
	}
	values := m.Floats[t.Offset : t.Offset+(t.Rows-1)*t.Stride+t.Cols]
	if err := b.device.Read(floatBytes(values), m.buffer, 4*t.Offset); err != nil {
		b.step.unread = errors.Join(b.step.unread, err)
		for i := range values {
			values[i] = float32(math.NaN())
		}
	}
}
