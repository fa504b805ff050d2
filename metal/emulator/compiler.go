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

// ErrNoCompiler is wrapped by the error of Open on a machine without a C++ compiler that can
// compile the kernels.
var ErrNoCompiler = errors.New("no C++ compiler can compile the kernels")

// compiler is a C++ compiler with the cache folder of compiled kernels.
type compiler struct {
	program
	cache string
}

// program is an installed compiler.
type program struct {
	path    string
	version string // output of --version
}

// findCompiler returns the first compiler that can compile kernels. It tries $CXX or, if CXX is not
// set, compilers with the usual names.
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

// wanted is the advice for users whose compiler is missing or too old. The versions are the first
// ones that support _Float16 in C++.
const wanted = "install g++ (12 or later; 13 on arm64) or clang++ (15 or later), or name one in CXX"

// examined caches the results of examine by path for the whole process, which may open many
// devices.
var examined sync.Map

// examine gets the version of a compiler and checks that it supports _Float16.
func examine(path string) (program, error) {
	if have, ok := examined.Load(path); ok {
		return have.(program), nil
	}
	version, err := exec.Command(path, "--version").Output() //nolint:noctx // the command takes little time
	if err != nil {
		return program{}, fmt.Errorf("%s --version failed (%w)", path, err)
	}
	p := program{path, string(version)}
	check := exec.Command(path, "-std=c++20", "-fsyntax-only", "-x", "c++", "-") //nolint:noctx // the command takes little time
	check.Stdin = strings.NewReader("_Float16 twice(_Float16 x) { return x + x; }\n")
	if check.Run() != nil {
		return program{}, fmt.Errorf("%s (%s) does not support _Float16", path, p.name())
	}
	examined.Store(path, p)
	return p, nil
}

// name returns the first line of the output of --version.
func (p *program) name() string {
	line, _, _ := strings.Cut(p.version, "\n")
	return line
}

// maxFrame is the compiler's limit for a stack frame, so that frames fit into the stack of a fibre
// (stackBytes in runtime.h).
const maxFrame = "frame-larger-than=49152"

// manyInstances is the number of instances of templates in a source from which on its debug kernels
// are compiled without optimisation. Compiling them then takes a third of the time, which is longer
// than they run: tests with debug kernels compute most products in tiles.
const manyInstances = 50

// flags returns the compiler flags of a mode for a source. The compiler refuses kernels that do not
// fit into the stack of a fibre. It fuses operations only in FastMath. FastMath does not use
// -ffast-math, which ignores infinities and turns off subnormal numbers in the thread that loads
// the library.
func (p *program) flags(text string, mode metal.Mode) []string {
	common := []string{"-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing", "-Wno-attributes", "-Wno-unknown-pragmas", "-x", "c++"}
	if strings.Contains(p.version, "clang") {
		common = append(common, "-W"+maxFrame, "-Werror=frame-larger-than")
	} else {
		common = append(common, "-Werror="+maxFrame)
		common = append(common, withoutPasses...)
	}
	switch mode {
	case metal.Debug:
		optimise := "-O1"
		if strings.Count(text, "\nINSTANTIATE(") >= manyInstances {
			optimise = "-O0"
		}
		return slices.Concat([]string{optimise, "-DINGOT_DEBUG", "-ffp-contract=off"}, native(), common)
	case metal.FastMath:
		fast := []string{"-O1", "-ffp-contract=fast", "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"}
		return slices.Concat(fast, native(), common)
	}
	// -O2 makes kernels only 15 % faster than -O1, but compiles for half as long again.
	return slices.Concat([]string{"-O1", "-ffp-contract=off"}, native(), common)
}

// withoutPasses are options without which g++ takes half as long again. Kernels compiled with them
// run for 3 % longer.
var withoutPasses = []string{
	"-fno-tree-fre", "-fno-tree-ccp", "-fno-tree-bit-ccp", "-fno-tree-dominator-opts", "-fno-tree-pta", "-fno-tree-copy-prop", "-fno-tree-dse", "-fno-dse", "-fno-ivopts",
}

func native() []string {
	if runtime.GOARCH == "amd64" {
		return []string{"-march=native"}
	}
	return nil
}
