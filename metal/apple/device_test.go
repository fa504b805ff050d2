package apple

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	d, _ := recorded(t)
	require.Equal(t, metal.Info{
		Driver: "metal", Name: "Fake M3 Max", Family: "Apple9", Memory: 16 << 30, MaxBuffer: 8 << 30, MaxThreadgroup: 1024,
		ThreadgroupMemory: 32 << 10, UnifiedMemory: true, ResidencySets: true,
	}, d.Info())
}

func TestSystemBeforeResidencySetsAndMathModes(t *testing.T) {
	t.Parallel()
	s := startFake(t, nil)
	s.Settings.OldSystem = 1
	d := opened(t, s)
	require.False(t, d.Info().ResidencySets)
	p := kernel(t, d, metal.Release, "increase")
	require.Equal(t, "safe", d.Info().MathMode)
	kernel(t, d, metal.FastMath, "increase") // compiled precisely: fast arithmetic of old systems does not handle infinities
	require.Equal(t, "safe", d.Info().MathMode)
	b := newBuffer(t, d, 128, metal.Shared)
	require.NoError(t, run(d, one(p, make([]byte, 8), b, b)))
}

// TestNoDefaultDevice checks that the first device is used if there is no default device, as in a
// session without a screen.
func TestNoDefaultDevice(t *testing.T) {
	t.Parallel()
	s := startFake(t, nil)
	s.Settings.NoDefault = 1
	require.Equal(t, "Fake M3 Max", opened(t, s).Info().Name)
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare     func(s *fake)
		message     string
		unsupported bool
	}{
		"no device":  {func(s *fake) { s.Fail(noDevice, 0, "none") }, "finds no device", true},
		"old device": {func(s *fake) { s.Settings.Family = 1005 }, `family "Apple5"`, true},
		"no queue":   {func(s *fake) { s.Fail(noQueue, 0, "none") }, "command queue", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startFake(t, nil)
			c.prepare(s)
			_, err := open([]string{s.Library})
			require.ErrorContains(t, err, c.message)
			require.Equal(t, c.unsupported, errors.Is(err, metal.ErrUnsupported))
			require.Empty(t, s.Live())
		})
	}
}

// TestVirtualGPU opens a GPU like those of virtual machines: its family is too old, and it cannot
// have a residency set. The variable admits it.
func TestVirtualGPU(t *testing.T) {
	t.Setenv(anyVariable, "1")
	s := startFake(t, nil)
	s.Settings.Family = 1005
	s.Fail(noResidency, 0, "not in a virtual machine")
	d := opened(t, s)
	require.Equal(t, "Apple5", d.Info().Family)
	require.False(t, d.Info().ResidencySets)
	b := newBuffer(t, d, 128, metal.Shared)
	require.NoError(t, run(d, one(kernel(t, d, metal.Release, "increase"), make([]byte, 8), b, b)))
	require.Zero(t, s.Sent("MTLResidencySet", "requestResidency"))
}

func TestOpenWithoutLibraries(t *testing.T) {
	t.Parallel()
	_, err := open(nil)
	require.ErrorIs(t, err, metal.ErrUnsupported)
	_, err = open([]string{"/nowhere/libobjc.dylib"})
	require.ErrorContains(t, err, "open /nowhere/libobjc.dylib")
}

func TestReleaseOfEverything(t *testing.T) {
	t.Parallel()
	d, s := recorded(t)
	p := kernel(t, d, metal.Debug, "increase")
	b := newBuffer(t, d, 128, metal.Shared)
	private := newBuffer(t, d, 128, metal.Private)
	require.NoError(t, d.Upload(private, 0, make([]byte, 128)))
	_, err := d.Submit([]metal.Dispatch{one(p, make([]byte, 8), private, b)})
	require.NoError(t, err)
	d.FreeBuffer(newBuffer(t, d, 64, metal.Private))
	require.NotEmpty(t, s.Live())
	require.NoError(t, d.Close()) // with a submission in flight
	require.Empty(t, s.Live())
	require.Zero(t, d.objc.owned)
	require.NoError(t, d.Close())
}

func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	d, _ := recorded(t)
	p := kernel(t, d, metal.Release, "increase")
	b := newBuffer(t, d, 128, metal.Shared)
	require.NoError(t, d.Close())
	_, err := d.Compile(source, metal.Release)
	require.ErrorIs(t, err, ErrClosed)
	_, err = d.Pipeline(1, "increase", nil)
	require.ErrorIs(t, err, ErrClosed)
	_, err = d.NewBuffer(16, metal.Shared)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, d.Upload(b, 0, []byte{1}), ErrClosed)
	_, err = d.Submit([]metal.Dispatch{one(p, nil, b)})
	require.ErrorIs(t, err, ErrClosed)
	_, err = d.Wait(1)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, d.StartCapture("x.gputrace"), ErrClosed)
	require.ErrorIs(t, d.StopCapture(), ErrClosed)
	require.Nil(t, d.Contents(b))
	require.Zero(t, d.Memory())
	d.FreeBuffer(b)
}

// TestRulesAreChecked violates rules and checks that the fake detects each violation.
func TestRulesAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does    func(d *Device)
		message string
	}{
		"unknown receiver":  {func(d *Device) { d.objc.send(id(0x1234560), deviceName) }, "not a live object"},
		"wrong class":       {func(d *Device) { d.objc.send(d.queue, deviceName) }, "does not recognise name"},
		"word too many":     {func(d *Device) { d.objc.send(d.device, deviceName, 7) }, "an extra word"},
		"object of another": {func(d *Device) { d.objc.send(d.queue, queueAddResidencySet, uintptr(d.device)) }, "an object of another class"},
		"no address":        {func(d *Device) { d.objc.send(d.device, deviceNewResidencySet, uintptr(d.residency.set), 0) }, "not the address of an NSError"},
		"released": {func(d *Device) {
			q := d.objc.instance("MTLCompileOptions")
			r := q
			d.objc.release(&q)
			d.objc.send(r, optionsLanguage)
		}, "not a live object"},
		"wait first": {func(d *Device) {
			c := id(d.objc.send(d.queue, queueCommandBuffer))
			d.objc.send(c, commandsWait)
			d.objc.send(c, commandsCommit)
			d.objc.send(c, commandsWait)
		}, "waitUntilCompleted before commit"},
		"set after end": {func(d *Device) {
			c := id(d.objc.send(d.queue, queueCommandBuffer))
			e := id(d.objc.send(c, commandsCompute, dispatchConcurrent))
			d.objc.send(e, encoderEnd)
			d.objc.send(e, computeBarrier, barrierBuffers)
			d.objc.send(c, commandsCommit)
			d.objc.send(c, commandsWait)
		}, "after endEncoding"},
		"dispatch without pipeline": {func(d *Device) {
			c := id(d.objc.send(d.queue, queueCommandBuffer))
			d.dispatchAlone(id(d.objc.send(c, commandsCompute, dispatchConcurrent)))
			d.objc.send(c, commandsCommit)
			d.objc.send(c, commandsCommit)
			d.objc.send(c, commandsWait)
		}, "without a pipeline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ignored := &silent{TB: t}
			s := startFake(ignored, nil)
			d := opened(t, s)
			d.thread.do(func() { c.does(d) })
			found := s.Violations()
			require.NotEmpty(t, found)
			require.Contains(t, strings.Join(found, "\n"), c.message)
		})
	}
}

// dispatchAlone encodes a dispatch without any bindings.
func (d *Device) dispatchAlone(encoder id) {
	d.dispatch(encoder, &metal.Dispatch{Groups: [3]int{1, 1, 1}, Threads: [3]int{32, 1, 1}})
	d.objc.send(encoder, encoderEnd)
}

// silent is a testing.TB that ignores violations.
type silent struct{ testing.TB }

func (s *silent) Errorf(format string, args ...any) { s.Logf(format, args...) }
