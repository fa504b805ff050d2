package apple

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// checkIncrease runs a chain of dispatches. Each reads the values that the previous dispatch has
// written.
func checkIncrease(t *testing.T, d *Device, p metal.Pipeline) {
	t.Helper()
	const n = 1000
	src, dst := newBuffer(t, d, 4*n, metal.Private), newBuffer(t, d, 4*n+64, metal.Shared)
	values := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(values[4*i:], uint32(i*i))
	}
	require.NoError(t, d.Upload(src, 0, values))
	args := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, n), 7)
	w := metal.Dispatch{
		Pipeline: p, Args: args, Groups: [3]int{(n + 31) / 32, 1, 1}, Threads: [3]int{32, 1, 1}, Barrier: true,
		Buffers: []metal.Binding{{Buffer: src}, {Buffer: src}},
	}
	last := w
	last.Buffers = []metal.Binding{{Buffer: src}, {Buffer: dst, Offset: 64}}
	ticket, err := d.Submit([]metal.Dispatch{w, w, last})
	require.NoError(t, err)
	timing, err := d.Wait(ticket)
	require.NoError(t, err)
	require.Positive(t, timing.Start)
	require.Greater(t, timing.End, timing.Start)
	for i := range n {
		require.Equal(t, uint32(i*i+21), binary.LittleEndian.Uint32(d.Contents(dst)[64+4*i:]))
	}
	require.Equal(t, make([]byte, 64), d.Contents(dst)[:64])
}

func TestWorkIsCarriedOut(t *testing.T) {
	t.Parallel()
	d, _ := carriedOut(t)
	checkIncrease(t, d, kernel(t, d, metal.Release, "increase"))
	require.Equal(t, metal.Counters{CommandBuffers: 1, Waits: 1, Dispatches: 3, Pipelines: 1, Buffers: 2, UploadedBytes: 4000}, d.Counters())
}

// TestEncoding checks what is encoded into the command buffer.
func TestEncoding(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	first := kernel(t, d, metal.Release, "increase")
	second := kernel(t, d, metal.Release, "mode_is")
	a, b := newBuffer(t, d, 256, metal.Shared), newBuffer(t, d, 512, metal.Private)
	before := s.Sent("MTLComputeCommandEncoder", "setComputePipelineState:")
	ticket, err := d.Submit([]metal.Dispatch{
		{Pipeline: first, Buffers: []metal.Binding{{Buffer: a, Offset: 4}, {Buffer: b, Offset: 128}}, Args: []byte("12345678"),
			Groups: [3]int{1, 2, 3}, Threads: [3]int{32, 2, 1}, Barrier: true},
		{Pipeline: first, Buffers: []metal.Binding{{Buffer: b}}, ThreadgroupMemory: 64, Groups: [3]int{9, 1, 1}, Threads: [3]int{64, 1, 1}, Barrier: true},
		{Pipeline: second, Args: []byte("abcd"), Groups: [3]int{1, 1, 1}, Threads: [3]int{1024, 1, 1}},
	})
	require.NoError(t, err)
	work := s.Work()
	require.Len(t, work, 3)
	ha, hb := work[0].Buffers[0], work[0].Buffers[1]
	require.NotEqual(t, ha, hb)

	w := work[0]
	require.Equal(t, []uint64{4, 128}, w.Offsets[:w.Bound])
	require.Equal(t, "12345678", string(w.Args[:w.ArgsSize]))
	require.Equal(t, [2][3]uint64{{1, 2, 3}, {32, 2, 1}}, [2][3]uint64{w.Groups, w.Threads})
	require.Equal(t, [3]uint64{0, 0, 1}, [3]uint64{w.Shared, uint64(w.Barrier), uint64(w.Concurrent)}) // the first needs no barrier

	w = work[1]
	require.Equal(t, []uint64{hb}, w.Buffers[:w.Bound])
	require.Equal(t, [3]uint64{64, 1, 0}, [3]uint64{w.Shared, uint64(w.Barrier), uint64(w.ArgsSize)})
	require.Equal(t, work[0].Pipeline, w.Pipeline)

	w = work[2]
	require.Equal(t, [3]uint64{0, 0, 4}, [3]uint64{uint64(w.Bound), uint64(w.Barrier), uint64(w.ArgsSize)})
	require.NotEqual(t, work[0].Pipeline, w.Pipeline)

	require.Equal(t, 2, s.Sent("MTLComputeCommandEncoder", "setComputePipelineState:")-before)
	_, err = d.Wait(ticket)
	require.NoError(t, err)
}

// TestTimes checks the times of submissions. Metal returns them as doubles, in another register
// than integers.
func TestTimes(t *testing.T) {
	t.Parallel()
	d, _ := recorded(t)
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 256, metal.Shared)
	var last metal.Timing
	for range 3 {
		ticket, err := d.Submit([]metal.Dispatch{one(p, nil, b)})
		require.NoError(t, err)
		timing, err := d.Wait(ticket)
		require.NoError(t, err)
		require.Greater(t, timing.Start, last.End)
		require.GreaterOrEqual(t, timing.End, timing.Start)
		require.Less(t, timing.End-timing.Start, time.Minute)
		last = timing
	}
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	p := kernel(t, d, metal.Release, "increase")
	b := newBuffer(t, d, 256, metal.Shared)
	freed := newBuffer(t, d, 256, metal.Shared)
	d.FreeBuffer(freed)
	for message, change := range map[string]func(w *metal.Dispatch){
		"pipeline 9 does not exist":                      func(w *metal.Dispatch) { w.Pipeline = 9 },
		"pipeline 0 does not exist":                      func(w *metal.Dispatch) { w.Pipeline = 0 },
		"at most 31 buffers":                             func(w *metal.Dispatch) { w.Buffers = make([]metal.Binding, 32) },
		"at most 4096":                                   func(w *metal.Dispatch) { w.Args = make([]byte, 4097) },
		"17 bytes of threadgroup":                        func(w *metal.Dispatch) { w.ThreadgroupMemory = 17 },
		"32784 bytes of threadgroup":                     func(w *metal.Dispatch) { w.ThreadgroupMemory = 32<<10 + 16 },
		"threadgroups of [31 1 1]":                       func(w *metal.Dispatch) { w.Threads[0] = 31 },
		"threadgroups of [-32 -1 1]":                     func(w *metal.Dispatch) { w.Threads = [3]int{-32, -1, 1} },
		"threadgroups of [1024 2 1]":                     func(w *metal.Dispatch) { w.Threads = [3]int{1024, 2, 1} },
		"a grid of [0 1 1]":                              func(w *metal.Dispatch) { w.Groups[0] = 0 },
		"does not exist":                                 func(w *metal.Dispatch) { w.Buffers[0].Buffer = freed },
		"is bound at byte 256":                           func(w *metal.Dispatch) { w.Buffers[0].Offset = 256 },
		"is bound at byte -4":                            func(w *metal.Dispatch) { w.Buffers[0].Offset = -4 },
		"is bound at byte 2":                             func(w *metal.Dispatch) { w.Buffers[0].Offset = 2 },
		"submit dispatch 0, test: kernel increase: argu": func(w *metal.Dispatch) { w.Buffers[0].Buffer = 77 },
	} {
		w := one(p, nil, b)
		change(&w)
		_, err := d.Submit([]metal.Dispatch{w})
		require.ErrorContains(t, err, message)
	}
	require.Zero(t, s.Sent("MTLCommandQueue", "commandBuffer"))
	_, err := d.Wait(1)
	require.ErrorContains(t, err, "not in flight")
}

func TestSeveralUnderWay(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 256, metal.Shared)
	var tickets []metal.Ticket
	for range maxSubmissions {
		ticket, err := d.Submit([]metal.Dispatch{one(p, nil, b)})
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	_, err := d.Submit([]metal.Dispatch{one(p, nil, b)})
	require.ErrorContains(t, err, "wait for one first")
	for _, i := range []int{0, 5, maxSubmissions - 3} { // each wait includes all earlier submissions; Close waits for the last ones
		_, err := d.Wait(tickets[i])
		require.NoError(t, err)
		for _, done := range []int{i, i / 2} {
			_, err = d.Wait(tickets[done])
			require.ErrorContains(t, err, "not in flight")
		}
	}
	require.Equal(t, maxSubmissions, s.Sent("MTLCommandBuffer", "commit"))
	require.Equal(t, 3, s.Sent("MTLCommandBuffer", "waitUntilCompleted"))
	require.Equal(t, 3, d.Counters().Waits)
}

// TestLongWorkIsSeveralCommandBuffers checks that work is split where dispatches allow it, but not
// into parts that are too small.
func TestLongWorkIsSeveralCommandBuffers(t *testing.T) {
	t.Parallel()
	d, s := carriedOut(t)
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 128, metal.Shared)
	args := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 32), 1)
	work := make([]metal.Dispatch, 4*minPart)
	for i := range work {
		work[i] = one(p, args, b, b)
		work[i].Barrier, work[i].SplitBefore = true, i%10 == 0
	}
	const parts = 4 // they begin at dispatches 0, 30, 60 and 90
	require.Equal(t, 24, minPart)
	var last metal.Ticket
	for n := 1; n <= maxSubmissions; n++ { // the last submissions are not split, so that the queue does not overflow
		ticket, err := d.Submit(work)
		require.NoError(t, err)
		if n < 5 {
			require.Equal(t, n*parts, s.Sent("MTLCommandBuffer", "commit"))
		}
		last = ticket
	}
	_, err := d.Submit(work)
	require.ErrorContains(t, err, "32 submissions are in flight")
	timing, err := d.Wait(last - 30)
	require.NoError(t, err)
	require.Greater(t, timing.End, timing.Start)
	require.Equal(t, 2*uint32(len(work)), binary.LittleEndian.Uint32(d.Contents(b)))
	_, err = d.Wait(last)
	require.NoError(t, err)
	require.Equal(t, maxSubmissions*uint32(len(work)), binary.LittleEndian.Uint32(d.Contents(b)))
	require.Equal(t, s.Sent("MTLCommandBuffer", "commit"), d.Counters().CommandBuffers)
	require.Equal(t, 2, d.Counters().Waits)
}

// TestFaultInAPart checks that a fault in one command buffer of a split submission is reported for
// the submission.
func TestFaultInAPart(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 128, metal.Shared)
	work := make([]metal.Dispatch, 3*minPart)
	for i := range work {
		work[i] = one(p, nil, b)
		work[i].SplitBefore = true
	}
	for _, late := range []uint64{0, 1} {
		s.Settings.LateStatus = late
		require.NoError(t, run(d, work...))
		s.Fail(gpuFault, 1, "Impacting Interactivity")
		ticket, err := d.Submit(work)
		require.NoError(t, err)
		_, err = d.Wait(ticket)
		require.ErrorContains(t, err, "Impacting Interactivity")
		require.NoError(t, run(d, one(p, nil, b)))
	}
}

// TestResidencyAfterIdling checks that residency is requested only when buffers have changed and
// after idle times.
func TestResidencyAfterIdling(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 256, metal.Shared)
	for _, c := range []struct {
		idle     time.Duration
		requests int
	}{{0, 1}, {0, 1}, {idleTime / 2, 1}, {idleTime + 1, 2}, {0, 2}} {
		d.residency.used = d.residency.used.Add(-c.idle)
		require.NoError(t, run(d, one(p, nil, b)))
		require.Equal(t, c.requests, s.Sent("MTLResidencySet", "requestResidency"))
	}
}

// TestSteadyWorkAllocatesNothing checks that steady work allocates no Go memory and makes no
// buffers or pipelines. The only Metal objects it makes are two per submission.
func TestSteadyWorkAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("allocations are not tested: the race detector allocates memory, too")
	}
	d, s := recorded(t)
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 256, metal.Shared)
	work := make([]metal.Dispatch, 330)
	for i := range work {
		work[i] = one(p, make([]byte, 8), b, b)
		work[i].Barrier = i%3 == 0
	}
	made, pooled := s.Sent("MTLDevice", "newBufferWithLength:options:"), s.Sent("NSString", "stringWithCString:encoding:")
	live := len(s.Live())
	require.Zero(t, testing.AllocsPerRun(20, func() {
		ticket, err := d.Submit(work)
		if err == nil {
			_, err = d.Wait(ticket)
		}
		if err != nil {
			panic(err)
		}
	}))
	require.Equal(t, made, s.Sent("MTLDevice", "newBufferWithLength:options:"))
	require.Equal(t, pooled, s.Sent("NSString", "stringWithCString:encoding:"))
	require.Len(t, s.Live(), live)
}

// TestGPUFault checks that the device remains usable after a submission has failed.
func TestGPUFault(t *testing.T) {
	t.Parallel()
	d, s := carriedOut(t)
	p := kernel(t, d, metal.Release, "increase")
	b := newBuffer(t, d, 256, metal.Shared)
	w := one(p, make([]byte, 8), b, b)
	s.Fail(gpuFault, 1, "Caused GPU Address Fault Error (0000000b:kIOGPUCommandBufferCallbackErrorPageFault)")
	var tickets [3]metal.Ticket
	for i := range tickets {
		var err error
		tickets[i], err = d.Submit([]metal.Dispatch{w})
		require.NoError(t, err)
	}
	_, err := d.Wait(tickets[0])
	require.NoError(t, err)
	_, err = d.Wait(tickets[1])
	require.ErrorContains(t, err, "submission 2: the GPU failed: Caused GPU Address Fault Error")
	require.ErrorContains(t, err, "(status 5, code 3)")
	require.NotErrorIs(t, err, metal.ErrMemory)
	checkIncrease(t, d, p) // runs in a new queue, after the work in flight
	require.Equal(t, 2, s.Sent("MTLDevice", "newCommandQueue"))
	_, err = d.Wait(tickets[2])
	require.ErrorContains(t, err, "not in flight") // the wait for a later submission included this one
	checkIncrease(t, d, p)
	require.Equal(t, 2, s.Sent("MTLDevice", "newCommandQueue"))
}

// TestGPUFaultAmongSeveral checks that the wait for a later submission returns the fault, and that
// no object leaks.
func TestGPUFaultAmongSeveral(t *testing.T) {
	t.Parallel()
	d, s := carriedOut(t)
	p := kernel(t, d, metal.Release, "increase")
	b := newBuffer(t, d, 256, metal.Shared)
	checkIncrease(t, d, p) // allocates the staging memory
	live := len(s.Live())
	for _, failing := range []int{0, 2, 4} {
		s.Fail(gpuFault, failing, "Caused GPU Hang Error")
		var ticket metal.Ticket
		for range 5 {
			var err error
			ticket, err = d.Submit([]metal.Dispatch{one(p, make([]byte, 8), b, b)})
			require.NoError(t, err)
		}
		_, err := d.Wait(ticket)
		require.ErrorContains(t, err, fmt.Sprintf("submission %d: the GPU failed", ticket-4+metal.Ticket(failing)))
		checkIncrease(t, d, p)
	}
	require.Equal(t, 4, s.Sent("MTLDevice", "newCommandQueue"))
	require.Len(t, s.Live(), live+6) // 6 buffers that checkIncrease made
}

func TestGPUOutOfMemory(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	s.Settings.ErrorCode = errorMemory
	s.Fail(gpuFault, 0, "Insufficient Memory")
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 256, metal.Shared)
	err := run(d, one(p, nil, b))
	require.ErrorIs(t, err, metal.ErrMemory)
	require.ErrorContains(t, err, "Insufficient Memory")
}

// TestNoQueueAfterAFault checks that the next submission tries again to make a queue if that has
// failed.
func TestNoQueueAfterAFault(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	p, b := kernel(t, d, metal.Release, "increase"), newBuffer(t, d, 256, metal.Shared)
	s.Fail(gpuFault, 0, "fault")
	s.Fail(noQueue, 0, "none")
	require.ErrorContains(t, run(d, one(p, nil, b)), "fault")
	require.ErrorContains(t, run(d, one(p, nil, b)), "recover after the GPU failed")
	require.NoError(t, run(d, one(p, nil, b)))
}

// TestLayouts checks the memory layouts of structs to which messages point.
func TestLayouts(t *testing.T) {
	require.Equal(t, uintptr(24), unsafe.Sizeof(size{}))
	require.Equal(t, uintptr(4), unsafe.Sizeof(metal.Constant{}.Value))
}
