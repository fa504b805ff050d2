package metal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// templates lists the kernel templates of each file. Their parameters are the weight type, the rows
// of weights per simdgroup and, for kernels that take several rows of activations, the number of
// these rows. To save compile time, only the instances that a geometry can choose are compiled.
var templates = map[string][]string{
	"product.metal": {Product, GatedProduct},
	"absorb.metal":  {Absorb},
	"experts.metal": {GatedExperts, ExpertsDown, ExpertsAdd},
}

// instance returns the kernel name of a template's instance, such as product_Q4_K_r2_n1. rows is
// the number of rows of weights per simdgroup, inputs the number of rows of activations that the
// instance processes at once.
func instance(kernel string, t gguf.Type, rows, inputs int) string {
	return fmt.Sprintf("%s_%v_r%d_n%d", kernel, t, rows, inputs)
}

// Inputs returns the values of Choice.Inputs for which a kernel has candidates, in ascending order.
// For tiles and Attention, whose candidates are the same for all values, it returns only 0.
func Inputs(kernel string) (list []int) {
	for n := range kernelShapes[kernel].rows {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// instances returns the lines that instantiate a file's templates: for every choice of the geometry
// and the given types of weights, or for the given types of KV pages.
func (g Geometry) instances(file string, types, pageTypes []gguf.Type) string {
	return pageInstances(file, pageTypes) + g.weightInstances(file, types, nil)
}

// pageInstances returns the lines of instances for types of KV pages, which are the same for every
// geometry.
func pageInstances(file string, pageTypes []gguf.Type) string {
	var text strings.Builder
	for _, template := range []*attentionTemplate{&attentionFew, &attentionTiles} {
		for _, t := range pageTypes {
			for _, k := range template.instances {
				if name, arguments := template.instance(k, t); template.file == file {
					fmt.Fprintf(&text, "INSTANTIATE(%q, %s, %s)\n", name, template.kernel, arguments)
				}
			}
		}
	}
	return text.String()
}

// weightInstances returns the lines of instances for types of weights, except those of the geometry
// without.
func (g Geometry) weightInstances(file string, types []gguf.Type, without Geometry) string {
	var text strings.Builder
	g.eachInstance(file, types, without, func(kernel string, t gguf.Type, rows, inputs int) {
		arguments := fmt.Sprintf("%v, %d", t, rows)
		if len(Inputs(kernel)) > 1 {
			arguments += fmt.Sprintf(", %d", inputs)
		}
		fmt.Fprintf(&text, "INSTANTIATE(%q, %s, %s)\n", instance(kernel, t, rows, inputs), kernel, arguments)
	})
	return text.String()
}

// eachInstance calls visit for every instance of a file's templates for types of weights, except
// those of the geometry without.
func (g Geometry) eachInstance(file string, types []gguf.Type, without Geometry, visit func(kernel string, t gguf.Type, rows, inputs int)) {
	for _, kernel := range templates[file] {
		for _, t := range types {
			for _, n := range Inputs(kernel) {
				have := without.rowsOf(kernel, t, n)
				for _, rows := range g.rowsOf(kernel, t, n) {
					if !slices.Contains(have, rows) {
						visit(kernel, t, rows, n)
					}
				}
			}
		}
	}
}

// rowsOf returns the values of Rows in all choices for a kernel, type and number of inputs, in
// ascending order.
func (g Geometry) rowsOf(kernel string, t gguf.Type, inputs int) (rows []int) {
	for i := range g {
		c := &g[i]
		if c.Kernel == kernel && c.Inputs == inputs && c.Rows > 0 && (c.Type == "" || c.Type == t.String()) && !slices.Contains(rows, c.Rows) {
			rows = append(rows, c.Rows)
		}
	}
	slices.Sort(rows)
	return rows
}
