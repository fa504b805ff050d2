package emulator

import (
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/metal/internal/translate"
)

// indices are the C++ expressions for Metal's position and size attributes.
var indices = map[string]string{
	"threadgroup_position_in_grid":   "f.worker->group",
	"threadgroups_per_grid":          "ingot::groups(f)",
	"thread_index_in_threadgroup":    "f.tid",
	"thread_index_in_simdgroup":      "f.lane",
	"simdgroup_index_in_threadgroup": "f.simdgroup->index",
	"simdgroups_per_threadgroup":     "f.worker->launch->threads / ingot::lanes",
}

// entry returns C++ code for a kernel: a function that describes the kernel and calls it with the
// buffers and indices of a fibre. If the kernel is not a template, the code also registers it.
func entry(k *translate.Kernel) string {
	var pass []string
	size, buffers := "0", 0
	for _, p := range k.Parameters {
		switch p.Kind {
		case translate.Buffer:
			pass = append(pass, fmt.Sprintf("ingot::bind<%s>(f, %d)", p.Type, buffers))
			buffers++
		case translate.Args:
			pass = append(pass, fmt.Sprintf("*(const %s*)f.worker->launch->args", p.Type))
			size = "sizeof(" + p.Type + ")"
		case translate.Shared:
			pass = append(pass, fmt.Sprintf("ingot::shared<%s>(f)", p.Type))
		case translate.Index:
			pass = append(pass, indices[p.Attribute])
		}
	}
	text := fmt.Sprintf(" %s static ingot::Entry ingot_entry_%s(const char* name) { return {name, [](ingot::Fibre& f) { %s(%s); }, %d, %s, %t}; }",
		k.Template, k.Name, k.Call(), strings.Join(pass, ", "), buffers, size, k.Shared)
	if k.Template == "" {
		text += fmt.Sprintf(" static const ingot::Register ingot_register_%s(ingot_entry_%s(%q));", k.Name, k.Name, k.Name)
	}
	return text
}
