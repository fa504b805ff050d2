// Command generate compiles the C kernels in ../c to Go assembly: for each level, a file of machine
// code and a file of Go declarations. It also writes a hash of the sources and of these files. It
// needs clang-19 and lld-19 as in Debian; set CLANG and LLD to use others. Run it through go
// generate.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"go/format"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

type level struct {
	prefix, title, arch string
	flags               []string
}

var levels = []level{
	{"avx512", "AVX-512 VNNI and AMX", "amd64", []string{
		"--target=x86_64-linux-gnu", "-march=x86-64-v4", "-mavx512vnni", "-mamx-tile", "-mamx-bf16", "-mtune=znver4", "-mprefer-vector-width=512",
	}},
	{"avx2", "AVX2", "amd64", []string{"--target=x86_64-linux-gnu", "-march=x86-64-v3"}},
	// The compiler must not use x18, which belongs to the system on Apple's machines, nor x27 and
	// x28, which belong to Go.
	{"neon", "NEON with dot products", "arm64", []string{
		"--target=aarch64-linux-gnu", "-march=armv8.2-a+dotprod", "-mcmodel=tiny",
		"-ffixed-x18", "-ffixed-x27", "-ffixed-x28",
	}},
}

var common = []string{
	"-std=gnu17", "-O3", "-ffreestanding", "-fno-jump-tables", "-fno-math-errno", "-fno-stack-protector",
	"-fno-asynchronous-unwind-tables", "-ffp-contract=off", "-fomit-frame-pointer", "-fno-ident",
	"-Wall", "-Wno-unused-function", "-Wno-psabi", "-Werror", fmt.Sprintf("-Wframe-larger-than=%d", frame-512),
}

// frame is the size of a kernel's stack. The compiler fails if a function needs more.
const frame = 8192

// script is a linker script that joins code and constants into one section. The section runs at any
// address that is a multiple of 64.
const script = `SECTIONS {
  .text 0 : { *(.text .text.*) . = ALIGN(64); *(.rodata .rodata.*) }
  /DISCARD/ : { *(.comment .note* .eh_frame*) }
}`

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: generate FOLDER (FOLDER is the folder of package kernels)")
	}
	for _, l := range levels {
		if err := l.generate(os.Args[1]); err != nil {
			log.Fatalf("generate %s kernels: %v", l.prefix, err)
		}
	}
	sum, err := hash(os.Args[1])
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[1], sumFile), []byte(sum), 0o644)
	}
	if err != nil {
		log.Fatalf("write the hash of the kernels: %v", err)
	}
}

// sumFile has the hash of sources and generated files.
const sumFile = "generated.sum"

// hash returns a hash of the C sources in a folder, of this program and of the files that it
// generates.
func hash(folder string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "c", "*"))
	if err != nil {
		return "", err
	}
	paths = append(paths, filepath.Join(folder, "generate", "main.go"))
	for _, l := range levels {
		paths = append(paths, l.path(folder)+".s", l.path(folder)+".go")
	}
	sum := sha256.New()
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		sum.Write(fmt.Appendf(nil, "%s %d\n%s", filepath.Base(path), len(data), data))
	}
	return hex.EncodeToString(sum.Sum(nil)) + "\n", nil
}

func (l level) generate(folder string) error {
	code, kernels, err := l.compile(filepath.Join(folder, "c"))
	if err != nil {
		return err
	}
	base := l.path(folder)
	if err := os.WriteFile(base+".s", l.assembly(code), 0o644); err != nil {
		return err
	}
	source, err := format.Source(l.declarations(kernels))
	if err != nil {
		return err
	}
	return os.WriteFile(base+".go", source, 0o644)
}

// path returns the path of the level's files, without their endings.
func (l level) path(folder string) string { return filepath.Join(folder, l.prefix+"_"+l.arch) }

type kernel struct {
	name   string // name in C, without the level
	offset uint64
}

// sources are compiled as one unit each and linked.
var sources = []string{"kernels.c", "fast.c", "words.c"}

func (l level) compile(folder string) ([]byte, []kernel, error) {
	dir, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	linked, lds := filepath.Join(dir, "kernels.elf"), filepath.Join(dir, "kernels.lds")
	if err := os.WriteFile(lds, []byte(script), 0o644); err != nil {
		return nil, nil, err
	}
	link := []string{"--entry=0", "-T", lds, "-o", linked}
	for _, source := range sources {
		object := filepath.Join(dir, source+".o")
		args := slices.Concat(common, l.flags, []string{"-c", "-o", object, filepath.Join(folder, source)})
		if err := run(tool("CLANG", "clang-19"), args...); err != nil {
			return nil, nil, err
		}
		link = append(link, object)
	}
	if err := run(tool("LLD", "ld.lld-19"), link...); err != nil {
		return nil, nil, err
	}
	return l.read(linked)
}

func (l level) read(path string) ([]byte, []kernel, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	code, err := f.Section(".text").Data()
	if err != nil {
		return nil, nil, err
	}
	symbols, err := f.Symbols()
	if err != nil {
		return nil, nil, err
	}
	var kernels []kernel
	for _, s := range symbols {
		name, ok := strings.CutPrefix(s.Name, l.prefix)
		if !ok || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		kernels = append(kernels, kernel{name: name[1:], offset: s.Value})
	}
	sort.Slice(kernels, func(i, j int) bool { return kernels[i].name < kernels[j].name })
	return code, kernels, nil
}

func tool(variable, fallback string) string {
	if name := os.Getenv(variable); name != "" {
		return name
	}
	return fallback
}

func run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

const header = "// Code generated from the sources in c by generate; DO NOT EDIT.\n\n"

// entry has, for each architecture, the assembly source of a Go function that calls the kernel at
// an offset by C's calling convention. The kernel uses the function's stack frame.
var entry = map[string]string{
	"amd64": `
TEXT ·%[1]sCall(SB), 0, $%[2]d-16
	MOVQ offset+0(FP), CX
	MOVQ args+8(FP), DI
	MOVQ SP, BX
	LEAQ %[3]d(SP), AX
	ANDQ $~63, AX
	LEAQ %[1]s<>(SB), DX
	ADDQ DX, CX
	MOVQ AX, SP
	CALL CX
	MOVQ BX, SP
	VZEROUPPER
	RET
`,
	"arm64": `
TEXT ·%[1]sCall(SB), 0, $%[2]d-16
	MOVD offset+0(FP), R3
	MOVD args+8(FP), R0
	MOVD RSP, R19
	ADD  $%[3]d, R19, R1
	AND  $~63, R1, R1
	MOVD $%[1]s<>(SB), R2
	ADD  R3, R2, R2
	MOVD R1, RSP
	CALL (R2)
	MOVD R19, RSP
	RET
`,
}

func (l level) assembly(code []byte) []byte {
	var b bytes.Buffer
	b.WriteString(header + "#include \"textflag.h\"\n")
	fmt.Fprintf(&b, entry[l.arch], l.prefix, frame, frame-64)
	fmt.Fprintf(&b, "\n// %s: code, then constants.\nTEXT %s<>(SB), NOSPLIT|NOFRAME, $0-0\n\tPCALIGN $64\n", l.title, l.prefix)
	for len(code)%16 != 0 {
		code = append(code, 0)
	}
	word := map[string]string{"amd64": "LONG", "arm64": "WORD"}[l.arch]
	for i := 0; i < len(code); i += 16 {
		b.WriteString("\t")
		for j := i; j < i+16; j += 4 {
			if j > i {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "%s $0x%08x", word, binary.LittleEndian.Uint32(code[j:]))
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

func (l level) declarations(kernels []kernel) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%spackage kernels\n\nimport \"unsafe\"\n\n//go:noescape\nfunc %sCall(offset uintptr, args unsafe.Pointer)\n", header, l.prefix)
	fmt.Fprintf(&b, "\n// %[1]s has the kernels for %[2]s.\nvar %[1]s = compiled(%[1]q, %[1]sCall, map[string]uintptr{\n", l.prefix, l.title)
	for _, k := range kernels {
		fmt.Fprintf(&b, "%q: %d,\n", k.name, k.offset)
	}
	b.WriteString("})\n")
	return b.Bytes()
}
