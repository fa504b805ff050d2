package metal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// templates are the files whose kernels are templates of rows of weights, and of inputs where they take several. Those that a
// geometry chooses are instantiated; a library of all would take longer to compile.
var templates = map[string][]string{
	"product.metal": {Product, GatedProduct},
	"absorb.metal":  {Absorb},
	"experts.metal": {Route, GatedExperts, ExpertsAdd},
}

// instance is the name of a kernel.
func instance(kernel string, t gguf.Type, rows, inputs int) string {
	return fmt.Sprintf("%s_%v_r%d_n%d", kernel, t, rows, inputs)
}

// Inputs are the numbers of inputs at once that there are candidates of a kernel for, ascending: 0 for tiles and attention.
func Inputs(kernel string) (list []int) {
	for n := range kernelShapes[kernel].rows {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// instances are the lines that instantiate what the geometry may choose of a file's templates.
func (g Geometry) instances(file string) string {
	var text strings.Builder
	for _, kernel := range templates[file] {
		inputs := Inputs(kernel)
		for _, t := range weightTypes {
			for _, n := range inputs {
				for _, rows := range g.rowsOf(kernel, t, n) {
					arguments := fmt.Sprintf("%v, %d", t, rows)
					if len(inputs) > 1 {
						arguments += fmt.Sprintf(", %d", n)
					}
					fmt.Fprintf(&text, "INSTANTIATE(%q, %s, %s)\n", instance(kernel, t, rows, n), kernel, arguments)
				}
			}
		}
	}
	return text.String()
}

// rowsOf are all rows of weights that are chosen for a type somewhere.
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
