package metal

import (
	"fmt"
	"io/fs"

	"github.com/ingot-run/ingot/engine/compute"
)

// nvidia is the recorder for NVIDIA's GPUs. Its kernels, in kernels/cuda, multiply the integers of
// quantised weights with activations of 8 bits, and compute attention over pages of float16,
// routing with routers in float32, and the largest logit of a row. All other operations are
// computed by general.
type nvidia struct {
	*step
	general *portable
	memory  int // bytes of threadgroup memory that the device allows

	operations []operation
	operands   []compute.Weight // the operations' weights
	rows       []int32          // the operations' rows

	nvidiaWeights
	nvidiaAttention
	nvidiaExperts
	nvidiaRows
}

// nvidiaScratch is the minimum number of bytes of scratch memory.
const nvidiaScratch = 1 << 20

func newNvidia(b *Backend, general *portable, mode Mode) (*nvidia, error) {
	n := &nvidia{step: &b.step, general: general, memory: b.device.Info().ThreadgroupMemory}
	n.mode = mode
	for _, compile := range []func(Device, Mode) error{n.nvidiaAttention.compile, n.nvidiaExperts.compile, n.nvidiaRows.compile} {
		if err := compile(b.device, mode); err != nil {
			return nil, err
		}
	}
	if err := b.reserve(nvidiaScratch); err != nil {
		return nil, err
	}
	if err := n.allocate(b); err != nil {
		return nil, err
	}
	return n, nil
}

func nvidiaSource(name string) (Source, error) {
	dir, err := fs.Sub(kernels, "kernels/cuda")
	if err != nil {
		return Source{}, fmt.Errorf("read kernels: %w", err)
	}
	src, err := ReadSource(dir, name)
	src.Text, src.CUDA = replaceConstants(src.Text, nvidiaConstants), true
	return src, err
}

// makePipelines compiles a file in folder kernels/cuda and makes the pipelines of the named
// kernels.
func makePipelines(dev Device, mode Mode, file string, pipelines map[string]*Pipeline) error {
	src, err := nvidiaSource(file)
	if err != nil {
		return err
	}
	lib, err := dev.Compile(src, mode)
	if err != nil {
		return err
	}
	for name, p := range pipelines {
		if *p, err = dev.Pipeline(lib, name, nil); err != nil {
			return err
		}
	}
	return nil
}

func (n *nvidia) begin() {
	n.clearOperations()
	n.forget()
	n.freeStaging()
}

func (n *nvidia) Submit() error {
	n.recordOperations()
	return n.step.Submit()
}

func (n *nvidia) Run() error {
	n.recordOperations()
	return n.step.Run()
}

func (n *nvidia) Checkpoint(layer int, stage string, t compute.Tensor) {
	if n.batch.Trace != nil {
		n.recordOperations()
	}
	n.step.Checkpoint(layer, stage, t)
}

// portable returns the recorder for operations that NVIDIA's kernels do not compute. Its dispatches
// may overwrite what the quantised activations and the grouped choices were made from.
func (n *nvidia) portable() *portable {
	n.forget()
	return n.general
}

func (n *nvidia) forget() { n.quantised, n.grouped = quantised{}, groupedChoices{} }

// recordFor records a dispatch that writes only dst. Quantised activations and grouped choices of
// other tensors remain valid.
func recordFor[A any](n *nvidia, name string, p Pipeline, g grid, args *A, dst compute.Tensor, buffers ...Binding) {
	record(n.step, name, p, g, args, buffers...)
	n.written(dst)
}

// written forgets the quantised activations and grouped choices that were made from dst's buffer,
// or that were in it.
func (n *nvidia) written(dst compute.Tensor) {
	if dst.Buffer == n.quantised.x.Buffer {
		n.quantised = quantised{}
	}
	if dst.Buffer == n.grouped.routing.Buffer || dst.Buffer == any(&n.scratch.memory) {
		n.grouped = groupedChoices{}
	}
}
