package cuda

import (
	_ "embed" // the prelude
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/metal/internal/translate"
)

var (
	//go:embed prelude.h
	prelude string
	//go:embed library.h
	libraryHeader string
)

// indices are the CUDA expressions for Metal's position and size attributes. Threadgroups have one
// dimension.
var indices = map[string]string{
	"threadgroup_position_in_grid":   "uint3{blockIdx.x, blockIdx.y + ingot_y, blockIdx.z}",
	"threadgroups_per_grid":          "uint3{gridDim.x, gridDim.y, gridDim.z}",
	"thread_index_in_threadgroup":    "threadIdx.x",
	"thread_index_in_simdgroup":      "threadIdx.x % 32",
	"simdgroup_index_in_threadgroup": "threadIdx.x / 32",
	"simdgroups_per_threadgroup":     "blockDim.x / 32",
}

func source(text string) (string, error) {
	var declared, single strings.Builder
	body, err := translate.C(text, func(k *translate.Kernel) string {
		declare(&declared, k)
		if k.Template == "" {
			fmt.Fprintf(&single, "INGOT_KERNEL(%s, %q, %s, %s)\n", k.Name, k.Name, k.Name, k.Name)
		}
		return ""
	})
	if err != nil {
		return "", err
	}
	return "#line 1 \"prelude.h\"\n" + prelude + "#line 1 \"msl.h\"\n" + translate.Header + "#line 1 \"library.h\"\n" + libraryHeader + declared.String() + body + "\n" + single.String() + "}\n", nil
}

// declare writes the macros that INSTANTIATE uses for a kernel: its parameters, the arguments of
// the call of its template, and its maximum number of threads. The parameters are the buffers, the
// argument struct, and the number of the launch's first threadgroup in y, since a launch has at
// most 65,535 threadgroups in y.
func declare(w *strings.Builder, k *translate.Kernel) {
	var parameters, pass []string
	for i, p := range k.Parameters {
		name := fmt.Sprintf("p%d", i)
		switch p.Kind {
		case translate.Buffer:
			parameters = append(parameters, p.Type+"* "+name)
		case translate.Args:
			parameters = append(parameters, p.Type+" "+name)
		case translate.Shared:
			name = "(" + p.Type + "*)ingot_shared"
		case translate.Index:
			name = indices[p.Attribute]
		}
		pass = append(pass, name)
	}
	parameters = append(parameters, "uint ingot_y")
	fmt.Fprintf(w, "#define INGOT_PARAMETERS_%s %s\n#define INGOT_PASS_%s %s\n", k.Name, strings.Join(parameters, ", "), k.Name, strings.Join(pass, ", "))
	bounds := ""
	if k.MaxThreads > 0 {
		bounds = fmt.Sprintf("__launch_bounds__(%d)", k.MaxThreads)
	}
	fmt.Fprintf(w, "#define INGOT_BOUNDS_%s %s\n", k.Name, bounds)
}
