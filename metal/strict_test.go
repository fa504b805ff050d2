package metal_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/internal/kernelcache"
)

var attributes = regexp.MustCompile(`\[\[[^\]]*\]\]`)

// clang runs clang++ on a source with Metal's address spaces, as C++14, on which Metal 3 is based.
// It returns the output.
func clang(t *testing.T, src string, flags ...string) (string, error) {
	t.Helper()
	return clangOn(t, strict(t, src), append([]string{"-x", "c++", "-std=c++14"}, flags...)...)
}

// strict returns a Metal source as C++ for clang.
func strict(t *testing.T, src string) string {
	t.Helper()
	declarations, err := os.ReadFile("testdata/strict.h")
	require.NoError(t, err)
	return "#line 1 \"strict.h\"\n" + string(declarations) + strings.ReplaceAll(attributes.ReplaceAllString(src, ""), "#include <", "// ")
}

func clangOn(t *testing.T, text string, flags ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "clang++", append(append([]string{"--target=aarch64-linux-gnu"}, flags...), "-")...)
	cmd.Stdin = strings.NewReader(text)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	return string(out) + messages.String(), err
}

// eachFile runs a test with the text of every kernel file. It skips the test if clang is not
// installed.
func eachFile(t *testing.T, g metal.Geometry, test func(t *testing.T, text string)) {
	t.Helper()
	if _, err := exec.LookPath("clang++"); err != nil {
		t.Skip("the kernels are not compiled with address spaces: clang++ is not installed")
	}
	files, err := fs.Glob(os.DirFS("kernels"), "*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			src, err := metal.Kernel(name, g)
			require.NoError(t, err)
			test(t, src.Text)
		})
	}
}

// eachNewFile is eachFile for the files whose code has not passed the test before: what clang makes
// of a text does not change. A list in testdata has those that passed, with keys of their code. If
// it is out of date and all files pass, the test writes it and fails, so that no later run compiles
// the files again. With INGOT_LONG=1, all are tested.
func eachNewFile(t *testing.T, list string, g metal.Geometry, test func(t *testing.T, text string)) {
	t.Helper()
	list = "testdata/" + list
	old, err := os.ReadFile(list)
	require.NoError(t, err)
	lines := slices.Collect(strings.Lines(string(old)))
	eachFile(t, g, func(t *testing.T, text string) {
		name := path.Base(t.Name()) + " "
		line := name + kernelcache.Key(strict(t, text)) + "\n"
		if long || !slices.Contains(lines, line) {
			test(t, text)
		}
		lines = append(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, name) }), line)
	})
	slices.Sort(lines)
	if passed := strings.Join(lines, ""); !t.Failed() && passed != string(old) {
		require.NoError(t, os.WriteFile(list, []byte(passed), 0o644))
		t.Errorf("%s was out of date and has been written: commit it", list)
	}
}

// checkStrictly returns clang's messages about a source.
func checkStrictly(t *testing.T, text string) string {
	t.Helper()
	out, err := clang(t, text, "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-ignored-qualifiers", "-Wno-unused-function",
		"-Wno-unused-const-variable", "-Wno-undefined-inline", "-Werror")
	if err == nil {
		require.Empty(t, out)
	}
	return out
}

// TestAddressSpaces checks all kernels with clang, in place of Apple's compiler, for errors that
// the emulator does not detect.
func TestAddressSpaces(t *testing.T) {
	eachNewFile(t, "strict.txt", slices.Concat(metal.AllCandidates(), metal.DefaultGeometry()), func(t *testing.T, text string) { require.Empty(t, checkStrictly(t, text)) })
	for _, wrong := range []string{
		"float f(device const float* p) { const float* q = p; return *q; }",
		"void f(threadgroup float* p) { device float* q = p; *q = 0; }",
		"template <int N> float f() { if constexpr (N > 0) return N; return 0; }", // C++17
		"float f() { UNROLL return 1; }",
	} {
		require.NotEmpty(t, checkStrictly(t, wrong), wrong)
	}
}

// alloca is in the lines of LLVM's assembly that reserve memory for a variable.
const alloca = " = alloca "

var (
	comments     = regexp.MustCompile(`//[^\n]*|"[^"]*"`)
	spaces       = `(?:device|threadgroup|constant|thread)\s+(?:const\s+)?(?:typename\s+)?`
	memoryTypes  = `(?:bool|float[24]?|half4?|u?int[234]?|uchar|ushort[24]?|packed_\w+|atomic_uint|X|W::Packed|[A-Z][a-zA-Z]*(?:Args|Tile|Slot|Row|Place|Packed))`
	pointers     = regexp.MustCompile(`\b(` + spaces + `)?(?:const\s+)?` + memoryTypes + `\s*[*&]\s*(?:\w+|\))`)
	staticMember = regexp.MustCompile(`^(?:` + spaces + `)`)
)

// unqualified returns the pointers and references of a source that have no address space.
// strict.h, in which thread is nothing, cannot find them, but Metal's compiler refuses them.
func unqualified(text string) (found []string) {
	for _, m := range pointers.FindAllString(comments.ReplaceAllString(text, ""), -1) {
		if !staticMember.MatchString(m) {
			found = append(found, m)
		}
	}
	return found
}

// TestPointersHaveAddressSpaces checks every kernel file and header.
func TestPointersHaveAddressSpaces(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(os.DirFS("kernels"), "*.*")
	require.NoError(t, err)
	count := 0
	for _, name := range files {
		text, err := os.ReadFile("kernels/" + name)
		require.NoError(t, err)
		require.Empty(t, unqualified(string(text)), name)
		count += len(pointers.FindAllString(string(text), -1))
	}
	require.Greater(t, count, 200)
	for text, want := range map[string]int{
		"void f(float* p)": 1, "void f(device const float* p, uint& n)": 1, "float* q = p;": 1, "(const uint4*)b": 1,
		"void f(thread const W::Packed& p)": 0, "float a = b * c;": 0, "// float* p": 0, "threadgroup uint* rows = (threadgroup uint*)(sees + 1);": 0,
	} {
		require.Len(t, unqualified(text), want, text)
	}
}

// combineOnce returns the options with which clang combines instructions once and not until nothing
// changes. It then takes three quarters of the time. Later versions than 17 always do, and do not
// have the option.
var combineOnce = sync.OnceValue(func() []string {
	options := []string{"-mllvm", "-instcombine-max-iterations=1"}
	if exec.Command("clang++", append(options, "-S", "-o", "-", "-x", "c++", os.DevNull)...).Run() != nil {
		return nil
	}
	return options
})

// inMemory returns the functions of a source that store a thread's arrays in memory after
// optimisation. On a GPU, memory is many times slower than registers. Like Apple's toolchain,
// inMemory compiles in two stages: for all GPUs and then for one GPU. -O1 unrolls loops as -O2
// does, in half the time. Clang ends the first stage as before a link (-flto=thin): it leaves out
// the passes after inlining and unrolling.
func inMemory(t *testing.T, text string) (names []string) {
	t.Helper()
	optimise := append([]string{"-O1", "-fno-vectorize", "-fno-slp-vectorize", "-S", "-emit-llvm", "-o", "-"}, combineOnce()...)
	out, err := clang(t, text, append(optimise, "-w", "-flto=thin", "-mllvm", "-inline-threshold=1000000")...)
	require.NoError(t, err, out)
	if strings.Contains(out, alloca) { // otherwise the second stage has no array to remove or to add
		out, err = clangOn(t, out, append(optimise, "-x", "ir")...)
		require.NoError(t, err, out)
	}
	name := ""
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "define "); ok {
			_, rest, _ = strings.Cut(rest, "@")
			name, _, _ = strings.Cut(rest, "(")
		}
		if strings.Contains(line, alloca) {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, name, "the output has no functions")
	return names
}

// TestArraysAreInRegisters checks that no kernel stores an array in memory, which happens if a loop
// over the array is not unrolled.
func TestArraysAreInRegisters(t *testing.T) {
	t.Parallel()
	eachNewFile(t, "registers.txt", metal.DefaultGeometry(), func(t *testing.T, text string) { require.Empty(t, inMemory(t, text)) })
	require.Equal(t, []string{"rolled"}, inMemory(t, `extern "C" float rolled(device const float* p, uint n) {
		float v[64];
		for (uint i = 0; i < 64; i++) v[i] = p[i] * p[i + n];
		for (uint i = 0; i < n; i++) v[i % 64] += p[i];
		return v[n];
	}`))
}
