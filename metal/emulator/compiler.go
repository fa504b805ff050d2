package emulator

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/ingot-run/ingot/metal"
)

// ErrNoCompiler is wrapped by the errors of Open where the machine has no C++ compiler that takes the kernels.
var ErrNoCompiler = errors.New("no C++ compiler can compile the kernels")

// compiler is a C++ compiler with the folder of what it has compiled.
type compiler struct {
	program
	cache string
}

// program is a compiler as it is installed.
type program struct {
	path    string
	version string // all that it says
}

// findCompiler looks for $CXX, or else for the usual names, and takes the first that can compile kernels.
func findCompiler(cache string) (*compiler, error) {
	names := []string{"c++", "g++", "clang++"}
	if name := os.Getenv("CXX"); name != "" {
		names = []string{name}
	}
	var unfit []string
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		p, err := examine(path)
		if err != nil {
			unfit = append(unfit, err.Error())
			continue
		}
		return &compiler{p, cache}, nil
	}
	if len(unfit) == 0 {
		return nil, fmt.Errorf("%w: none of %s is installed: %s", ErrNoCompiler, strings.Join(names, ", "), wanted)
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrNoCompiler, strings.Join(unfit, ", "), wanted)
}

// wanted is what to do about a compiler that is missing or too old: from these versions on C++ knows _Float16.
const wanted = "install g++ (12 or later; 13 on arm64) or clang++ (15 or later), or name one in CXX"

// examined holds what was found of the compilers by their paths, since a process may open many devices.
var examined sync.Map

// examine asks a compiler for its version, and has it check a line that older ones refuse.
func examine(path string) (program, error) {
	if have, ok := examined.Load(path); ok {
		return have.(program), nil
	}
	version, err := exec.Command(path, "--version").Output() //nolint:noctx // it answers at once
	if err != nil {
		return program{}, fmt.Errorf("%s does not tell its version (%w)", path, err)
	}
	p := program{path, string(version)}
	check := exec.Command(path, "-std=c++20", "-fsyntax-only", "-x", "c++", "-") //nolint:noctx // likewise
	check.Stdin = strings.NewReader("_Float16 twice(_Float16 x) { return x + x; }\n")
	if check.Run() != nil {
		return program{}, fmt.Errorf("%s (%s) knows no half precision", path, p.name())
	}
	examined.Store(path, p)
	return p, nil
}

// name is the first line of the compiler's version.
func (p *program) name() string {
	line, _, _ := strings.Cut(p.version, "\n")
	return line
}

// mostFrame is the bytes of a function's values that fit the stack of a fibre: stackBytes of runtime.h.
const mostFrame = "frame-larger-than=49152"

// flags are those of a mode. A kernel that would not fit the stack of a fibre is refused. Nothing is fused that the kernels do
// not fuse themselves, but in fast arithmetic. That is spelt out, since -ffast-math would forget infinities, and would have the
// library switch subnormal numbers off for the thread that loads it.
func (p *program) flags(mode metal.Mode) []string {
	common := []string{"-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing", "-Wno-attributes", "-x", "c++"}
	if strings.Contains(p.version, "clang") {
		common = append(common, "-W"+mostFrame, "-Werror=frame-larger-than")
	} else {
		common = append(common, "-Werror="+mostFrame)
	}
	switch mode {
	case metal.Debug:
		return slices.Concat([]string{"-O1", "-DINGOT_DEBUG", "-ffp-contract=off"}, common)
	case metal.FastMath:
		fast := []string{"-O2", "-ffp-contract=fast", "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"}
		return slices.Concat(fast, native(), common)
	}
	return slices.Concat([]string{"-O2", "-ffp-contract=off"}, native(), common)
}

func native() []string {
	if runtime.GOARCH == "amd64" {
		return []string{"-march=native"}
	}
	return nil
}
