// Package fakemetal is a fake of the Objective-C runtime and Metal in tests of their driver: a C library, built here, that
// the driver opens in place of the system's. The driver's own code runs, unchanged, on any machine.
//
// It takes every message as the real libraries do, by objc_msgSend, and checks it: that the receiver is alive and of a class
// with this method, the number and kinds of its words by Apple's own declarations, every retain and release, autorelease
// pools and their thread, the order in which command buffers and encoders may be used, and bindings and sizes of dispatches.
// What breaks a rule fails the test. Faults are made on demand. Work is carried out by another metal.Device, or only recorded.
//
// It differs from the real ones in this:
//   - On x86-64 it takes an MTLSize by address, as arm64 does; the real convention there has it on the stack.
//   - A command buffer runs when it is waited for, in the order of commits: whoever does not wait sees nothing done.
//   - A kernel's buffers and arguments have to be set again for each dispatch, and the pipeline's alone stay.
//   - Of what is beyond the messages of signatures.tsv, it has nothing.
package fakemetal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// Fault is what can be made to fail.
type Fault uint32

// The faults, as in control.h.
const (
	NoDevice      Fault = iota + 1
	NoQueue             // newCommandQueue returns nil
	NoResidency         // newResidencySetWithDescriptor fails
	CompileError        // newLibraryWithSource fails
	FunctionError       // newFunctionWithName fails
	PipelineError       // newComputePipelineStateWithFunction fails
	NoBuffer            // newBufferWithLength returns nil
	GPUFault            // a command buffer ends with an error
	CaptureError        // startCaptureWithDescriptor fails
)

// Settings describe the device and the system: Settings of control.h. They may be changed at any time.
type Settings struct {
	WorkingSet, MaxBuffer uint64
	Family                uint64 // MTLGPUFamily: 1009 is Apple9
	NoDefault             uint64 // 1: there is a device, and none by default
	OldSystem             uint64 // 1: before macOS 15
	Captures              uint64 // 1: captures to files are allowed
	ErrorCode             uint64 // MTLCommandBufferError of failing command buffers
}

// Fake is a library of its own: what happens in one is not seen in others.
type Fake struct {
	// Library is the path of the file to open in place of all of the system's.
	Library  string
	Settings *Settings

	tb         testing.TB
	signatures []Signature
	executor   executor
	fail       func(fault, skip uint32, text string)
	breach     func(i uint32) string
	live       func() uint32
	liveName   func(i uint32) string
	sent       func(row uint32) uint64
	work       func(count, size *uint64) *Work
}

// Start makes a fake until the test ends, and fails the test then if a rule was broken or an object was not given back.
// The device carries the work out, and is closed with the test; where it is nil, work is recorded and copies are made. A
// machine without a C compiler skips the test.
func Start(tb testing.TB, device metal.Device) *Fake {
	tb.Helper()
	library, err := build()
	if errors.Is(err, errNoCompiler) {
		tb.Skipf("the driver is not tested: %v", err)
	}
	require.NoError(tb, err)
	s := &Fake{tb: tb, Library: filepath.Join(tb.TempDir(), "fakemetal.so")}
	require.NoError(tb, os.WriteFile(s.Library, library, 0o700))
	s.signatures, err = Signatures()
	require.NoError(tb, err)
	handle, err := purego.Dlopen(s.Library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(tb, err)
	s.bind(handle)
	if device != nil {
		s.carryOut(handle, device)
	}
	tb.Cleanup(s.check)
	return s
}

func (s *Fake) bind(handle uintptr) {
	for name, f := range map[string]any{
		"standin_fail": &s.fail, "standin_breach": &s.breach, "standin_live": &s.live, "standin_live_name": &s.liveName,
		"standin_sent": &s.sent, "standin_work": &s.work,
	} {
		purego.RegisterLibFunc(f, handle, name)
	}
	var settings func() *Settings
	purego.RegisterLibFunc(&settings, handle, "standin_settings")
	s.Settings = settings()
}

// check is the end of the test.
func (s *Fake) check() {
	for _, b := range s.Breaches() {
		s.tb.Errorf("the driver broke a rule: %s", b)
	}
	if live := s.Live(); len(live) > 0 {
		s.tb.Errorf("%d objects were not given back: %v", len(live), live)
	}
	s.closeExecutor()
}

// Fail makes the call that the fault is about fail once, after skip calls that do not.
func (s *Fake) Fail(f Fault, skip int, text string) { s.fail(uint32(f), uint32(skip), text) }

// Breaches are the rules that were broken.
func (s *Fake) Breaches() []string {
	var list []string
	for text := s.breach(0); text != ""; text = s.breach(uint32(len(list))) {
		list = append(list, text)
	}
	return list
}

// Live are the classes of the objects that are not given back.
func (s *Fake) Live() []string {
	list := make([]string, s.live())
	for i := range list {
		list[i] = s.liveName(uint32(i))
	}
	return list
}

// Sent is how often a message was sent.
func (s *Fake) Sent(class, selector string) int {
	for i, m := range s.signatures {
		if m.Class == class && m.Selector == selector {
			return int(s.sent(uint32(i)))
		}
	}
	s.tb.Fatalf("%s %s is in no row of the signatures", class, selector)
	return 0
}

// Work is a dispatch, or a copy where Pipeline is 0: Work of control.h. Handles are in the order of making.
type Work struct {
	Pipeline         uint64
	Buffers, Offsets [31]uint64
	Groups, Threads  [3]uint64
	Shared           uint64
	Bound, ArgsSize  uint32
	Barrier          uint32
	Concurrent       uint32
	Args             [4096]byte
	_                [5]uintptr // a copy's
}

// Work is a copy of the work of the command buffer that was committed last. It is there until it is waited for.
func (s *Fake) Work() []Work {
	var count, size uint64
	first := s.work(&count, &size)
	require.Equal(s.tb, uint64(unsafe.Sizeof(Work{})), size)
	return append([]Work(nil), unsafe.Slice(first, count)...)
}
