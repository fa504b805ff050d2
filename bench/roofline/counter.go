package roofline

import (
	"errors"
	"math"

	"github.com/ingot-run/ingot/metal"
)

// counter is a metal.Device that computes nothing: it only counts the dispatches that it receives.
// Every result is 0. At start, the backend compares the results of kernels with and without
// simdgroup matrices. Here they are equal, so it uses simdgroup matrices, as on Apple's GPUs. Only
// shared buffers have memory, so that a model of any size can be loaded.
type counter struct {
	handles  uint32 // number of pipelines and buffers made so far
	shared   map[metal.Buffer][]byte
	ticket   metal.Ticket
	counters metal.Counters
}

// Limits of the GPUs on which the kernels run: family Apple7 and later, from Apple's Metal feature
// set tables.
const (
	simdWidth         = 32
	maxThreadgroup    = 1024
	threadgroupMemory = 32 << 10
)

func (c *counter) handle() uint32 {
	c.handles++
	return c.handles
}

func (c *counter) Info() metal.Info {
	return metal.Info{
		Driver: "counter", UnifiedMemory: true, Name: "counter", Memory: math.MaxInt, MaxBuffer: math.MaxInt,
		MaxThreadgroup: maxThreadgroup, ThreadgroupMemory: threadgroupMemory,
	}
}

func (c *counter) Compile(metal.Source, metal.Mode) (metal.Library, error) { return 1, nil }

func (c *counter) Pipeline(metal.Library, string, []metal.Constant) (metal.Pipeline, error) {
	return metal.Pipeline(c.handle()), nil
}

func (c *counter) PipelineInfo(metal.Pipeline) metal.PipelineInfo {
	return metal.PipelineInfo{MaxThreads: maxThreadgroup, SimdWidth: simdWidth}
}

func (c *counter) NewBuffer(bytes int, storage metal.Storage) (metal.Buffer, error) {
	b := metal.Buffer(c.handle())
	if storage == metal.Shared {
		c.shared[b] = make([]byte, bytes)
	}
	return b, nil
}

func (c *counter) FreeBuffer(b metal.Buffer) { delete(c.shared, b) }

func (c *counter) Contents(b metal.Buffer) []byte { return c.shared[b] }

func (c *counter) Upload(metal.Buffer, int, []byte) error { return nil }

func (c *counter) Read([]byte, metal.Buffer, int) error { return nil }

func (c *counter) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	c.counters.Dispatches += len(work)
	written := map[metal.Buffer]bool{}
	for i := range work {
		for _, b := range work[i].Buffers {
			if !written[b.Buffer] {
				clear(c.shared[b.Buffer])
				written[b.Buffer] = true
			}
		}
	}
	c.ticket++
	return c.ticket, nil
}

func (c *counter) Wait(metal.Ticket) (metal.Timing, error) { return metal.Timing{}, nil }

func (c *counter) Memory() int { return 0 }

// Counters implements metal.Device. Only dispatches are counted.
func (c *counter) Counters() metal.Counters { return c.counters }

var errNoWork = errors.New("capture the GPU's work: this device has no GPU and only counts dispatches")

func (c *counter) StartCapture(string) error { return errNoWork }

func (c *counter) StopCapture() error { return errNoWork }

func (c *counter) Close() error { return nil }
