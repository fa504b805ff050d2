package apple

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

// fault is a call that tests can make fail.
type fault uint32

// The faults, with the values of control.h.
const (
	noDevice      fault = iota + 1
	noQueue             // newCommandQueue returns nil
	noResidency         // newResidencySetWithDescriptor fails
	compileError        // newLibraryWithSource fails
	functionError       // newFunctionWithName fails
	pipelineError       // newComputePipelineStateWithFunction fails
	noBuffer            // newBufferWithLength returns nil
	gpuFault            // a command buffer ends with an error
	captureError        // startCaptureWithDescriptor fails
)

// fakeSettings describes the device and the system. It mirrors Settings of control.h. Tests may
// change it at any time.
type fakeSettings struct {
	WorkingSet, MaxBuffer uint64
	Family                uint64 // MTLGPUFamily: 1009 is Apple9
	NoDefault             uint64 // 1: the device is not the system's default
	OldSystem             uint64 // 1: before macOS 15
	Captures              uint64 // 1: captures to files are allowed
	ErrorCode             uint64 // MTLCommandBufferError of failing command buffers
	LateStatus            uint64 // 1: the status of a command buffer changes only in a wait for that command buffer, not for a later one
}

// fake is an instance of a fake of the Objective-C runtime and Metal. The fake is a C library in
// testdata/fakemetal. Tests build it, and the driver opens it in place of the system's libraries.
// So the driver's code runs unchanged on any machine. Instances are independent.
//
// Like the real libraries, it receives messages through objc_msgSend. It checks that the receiver
// is alive, that its class has the method, and that the number and kinds of arguments match Apple's
// declarations. It also checks every retain and release, autorelease pools and their threads, the
// order of calls on command buffers and encoders, and the bindings and sizes of dispatches. A
// violation fails the test. Tests can inject faults. Another metal.Device runs the work, or the
// work is only recorded.
//
// It differs from the real libraries:
//   - On x86-64 it receives an MTLSize by address, as on arm64. The real convention passes it on
//     the stack.
//   - A command buffer runs when it is waited for, in the order of commits. Without a wait, nothing
//     runs.
//   - Buffers and arguments must be set again for each dispatch. Only the pipeline persists.
//   - It implements the messages of signatures.tsv only.
type fake struct {
	// Library is the path of the file to open in place of the system's libraries.
	Library  string
	Settings *fakeSettings

	tb         testing.TB
	signatures []signature
	executor   executor
	fail       func(fault, skip uint32, text string)
	violation  func(i uint32) string
	live       func() uint32
	liveName   func(i uint32) string
	sent       func(row uint32) uint64
	work       func(count, size *uint64) *fakeWork
}

// startFake makes a fake for the duration of a test. The test fails at its end if there was a
// violation or an object leaked. device runs the work and is closed at the end of the test. If
// device is nil, copies are run, but dispatches are only recorded. startFake skips the test on
// machines without a C compiler.
func startFake(tb testing.TB, device metal.Device) *fake {
	tb.Helper()
	library, err := fakeLibrary()
	if errors.Is(err, errNoCompiler) {
		tb.Skipf("the driver is not tested: %v", err)
	}
	require.NoError(tb, err)
	s := &fake{tb: tb, Library: filepath.Join(tb.TempDir(), "fakemetal.so")}
	require.NoError(tb, os.WriteFile(s.Library, library, 0o700))
	s.signatures, err = readSignatures()
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

func (s *fake) bind(handle uintptr) {
	for name, f := range map[string]any{
		"fake_fail": &s.fail, "fake_breach": &s.violation, "fake_live": &s.live, "fake_live_name": &s.liveName,
		"fake_sent": &s.sent, "fake_work": &s.work,
	} {
		purego.RegisterLibFunc(f, handle, name)
	}
	var settings func() *fakeSettings
	purego.RegisterLibFunc(&settings, handle, "fake_settings")
	s.Settings = settings()
}

// check fails the test if there were violations or leaks. It is called at the end of the test.
func (s *fake) check() {
	for _, b := range s.Violations() {
		s.tb.Errorf("the driver broke a rule: %s", b)
	}
	if live := s.Live(); len(live) > 0 {
		s.tb.Errorf("%d objects leaked: %v", len(live), live)
	}
	s.closeExecutor()
}

// Fail injects a fault: the call that f names fails once, with the given text as its error. The
// number of calls that succeed before it is skip.
func (s *fake) Fail(f fault, skip int, text string) { s.fail(uint32(f), uint32(skip), text) }

// Violations returns the violations so far.
func (s *fake) Violations() []string {
	var list []string
	for text := s.violation(0); text != ""; text = s.violation(uint32(len(list))) {
		list = append(list, text)
	}
	return list
}

// Live returns the classes of the live objects.
func (s *fake) Live() []string {
	list := make([]string, s.live())
	for i := range list {
		list[i] = s.liveName(uint32(i))
	}
	return list
}

// Sent returns the number of times that a message was sent.
func (s *fake) Sent(class, selector string) int {
	for i, m := range s.signatures {
		if m.Class == class && m.Selector == selector {
			return int(s.sent(uint32(i)))
		}
	}
	s.tb.Fatalf("the signatures have no row for %s %s", class, selector)
	return 0
}

// fakeWork is a dispatch, or a copy if Pipeline is 0. It mirrors Work of control.h. Handles are
// numbered in the order of creation.
type fakeWork struct {
	Pipeline         uint64
	Buffers, Offsets [31]uint64
	Groups, Threads  [3]uint64
	Shared           uint64
	Bound, ArgsSize  uint32
	Barrier          uint32
	Concurrent       uint32
	Args             [4096]byte
	_                [5]uintptr // fields of a copy
}

// Work returns a copy of the work of the last committed command buffer. It is available until the
// command buffer is waited for.
func (s *fake) Work() []fakeWork {
	var count, size uint64
	first := s.work(&count, &size)
	require.Equal(s.tb, uint64(unsafe.Sizeof(fakeWork{})), size)
	return append([]fakeWork(nil), unsafe.Slice(first, count)...)
}
