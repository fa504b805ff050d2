package metal

import (
	"fmt"
	"io/fs"

	"github.com/ingot-run/ingot/engine/gguf"
)

// nvidia is the recorder for NVIDIA's GPUs. Its kernels, in kernels/cuda, multiply weights of all
// types but F32 with activations in float16, and compute attention over pages of all types but F32
// and routing with routers in float32. All other operations are computed by general.
type nvidia struct {
	*step
	general *portable
	memory  int                   // bytes of threadgroup memory that the device allows
	hopper  bool                  // see Info.Warpgroups
	tiles   map[string]tileLimits // by kernel of a geometry; for those without limits, the kernels' own apply

	nvidiaWeights
	nvidiaAttention
	nvidiaExperts
	nvidiaRows
	nvidiaStates
}

// tileLimits are the minimum numbers of rows of activations and of threadgroups for which a tile is
// used, and its maximum number of rows of weights; 0 for any.
type tileLimits struct{ rows, threadgroups, tall int }

// An nvidiaOperation is an operation that NVIDIA's kernels compute for some weights and shapes.
type nvidiaOperation interface {
	operation
	nvidia(n *nvidia)
}

func (n *nvidia) record(operations []call) {
	n.hold(quantised{}, 0)
	n.grouped, n.general.grouped = groupedChoices{}, groupedChoices{} // the CPU may have written to buffers
	n.staging.free(n.Backend)
	operations = n.fuse(operations)
	for i := 0; i < len(operations); i++ {
		n.splitNext = n.splitNext || operations[i].splitBefore
		if chain := n.chainOf(operations[i:]); chain.operations > 0 {
			n.normChain(&chain)
			i += chain.operations - 1
			continue
		}
		if op, ok := operations[i].operation.(nvidiaOperation); ok {
			op.nvidia(n)
		} else {
			operations[i].portable(n.general)
		}
	}
}

// nvidiaFiles are the files in folder kernels/cuda with the kernels that do not depend on the type
// of weights, those that take longest to compile first.
var nvidiaFiles = []string{"choose.cu", "store.cu"}

// startNvidia begins to compile the kernels for NVIDIA's GPUs that every model needs, if the device
// can run them.
func (c *compiler) startNvidia() error {
	if !c.Info().NvidiaKernels {
		return nil
	}
	for _, name := range nvidiaFiles {
		src, err := nvidiaSource(name)
		if err != nil {
			return err
		}
		c.start(src)
	}
	return nil
}

// nvidiaScratch is the minimum number of bytes of scratch memory.
const nvidiaScratch = 1 << 20

func newNvidia(b *Backend, general *portable, mode Mode, geometry Geometry) (*nvidia, error) {
	info := b.device.Info()
	n := &nvidia{step: &b.step, general: general, memory: info.ThreadgroupMemory, hopper: info.Warpgroups, tiles: map[string]tileLimits{}}
	for _, c := range geometry {
		if c.From > 0 {
			n.tiles[c.Kernel] = tileLimits{c.From, c.Tiles, c.Rows}
		}
	}
	n.mode, n.ofType, n.ofPages = mode, map[gguf.Type]*packedKernels{}, map[gguf.Type]*attentionKernels{}
	for _, compile := range []func(Device, Mode) error{n.nvidiaExperts.compile, n.nvidiaRows.compile} {
		if err := compile(b.device, mode); err != nil {
			return nil, err
		}
	}
	if err := b.reserve(nvidiaScratch); err != nil {
		return nil, err
	}
	if err := n.counters.grow(b, 4*(maxSplitTiles+balancedThreadgroups), "allocate the counters of split products"); err != nil {
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

// makeFilePipelines is makePipelines for a file in folder kernels/cuda.
func makeFilePipelines(dev Device, mode Mode, file string, pipelines map[string]*Pipeline) error {
	src, err := nvidiaSource(file)
	if err != nil {
		return err
	}
	return makePipelines(dev, mode, src, pipelines)
}

// makePipelines compiles a source and makes the pipelines of the named kernels.
func makePipelines(dev Device, mode Mode, src Source, pipelines map[string]*Pipeline) error {
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
