package emulator

import (
	"regexp"
	"strings"
)

var (
	dynamicShared = regexp.MustCompile(`extern __shared__ (\w+) (\w+)\[\];`)
	kernelHead    = regexp.MustCompile(`__global__ void (?:(?:__launch_bounds__|BOUNDS)\([^)]*\) )?(\w+)\(`)
	kernelMacro   = regexp.MustCompile(`^#define (\w+)\(name,`)
)

// fromCUDA returns the text of kernels in CUDA C++ with the code that registers them. A kernel is a
// function with __global__, or an instance of a macro whose text has __global__ and whose first
// parameter is the kernel's name. Threadgroup memory of which the launch gives the size becomes the
// worker's.
func fromCUDA(text string) string {
	text = dynamicShared.ReplaceAllString(text, "$1* $2 = ($1*)ingot::dynamic();")
	var names []string
	var b strings.Builder
	macros := map[string]bool{}
	macro := "" // the macro whose text continues in the next line
	for line := range strings.Lines(text) {
		name, _, called := strings.Cut(line, "(")
		switch m := kernelMacro.FindStringSubmatch(line); {
		case m != nil:
			macro = m[1]
		case macro == "" && strings.HasPrefix(line, "extern \"C\" __global__"):
			name := kernelHead.FindStringSubmatch(line)[1]
			names = append(names, name)
			line = strings.Replace(line, " "+name+"(", " ingot_"+name+"(", 1)
		case macro == "" && called && macros[name]:
			first, _, _ := strings.Cut(line[len(name)+1:], ",")
			names = append(names, first)
		}
		if macro != "" && strings.Contains(line, "__global__") {
			macros[macro] = true
			line = strings.Replace(line, " name(", " ingot_##name(", 1) // not the name of a template
		}
		if !strings.HasSuffix(strings.TrimRight(line, "\n"), "\\") {
			macro = ""
		}
		b.WriteString(line)
	}
	b.WriteByte('\n')
	for _, name := range names {
		b.WriteString("INGOT_KERNEL(" + name + ")\n")
	}
	return b.String()
}
