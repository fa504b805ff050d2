package metal

import (
	_ "embed" // the choices that come with the program
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Geometry is how operations are spread over a GPU. None of it changes a result. Where several choices are for one kernel,
// the closer one counts: one for a shape over one for a type, that over one for a device, and of equals the later. What it
// leaves empty comes from the next.
type Geometry []Choice

// Choice is how one kernel is spread over a GPU, for the devices, types and shapes that it names. An empty field of these
// stands for all.
type Choice struct {
	Device string `json:"device,omitempty"` // family, such as "Apple9", or driver where that has none
	Kernel string `json:"kernel"`           // one of the constants
	Type   string `json:"type,omitempty"`   // of weights, or of the cache, as GGUF calls it
	In     int    `json:"in,omitempty"`     // length of a row of weights, or of a key
	Out    int    `json:"out,omitempty"`    // rows of a matrix, or length of a value
	// Inputs is the activations that the kernel takes at once: 1, 2, 4 or 8, of the kernels for few rows a key like the fields
	// before it. Tiles are free to have 32 or 64.
	Inputs int `json:"inputs,omitempty"`

	Rows       int `json:"rows,omitempty"`       // of weights that a simdgroup or a tile takes; of attention, query heads at most
	Simdgroups int `json:"simdgroups,omitempty"` // of a threadgroup, as far as the device takes them; tiles have what their size needs
	// From is from how many rows on tiles are used; of attention, from how many positions on these are split.
	From int `json:"from,omitempty"`

	Microseconds float64 `json:"microseconds,omitempty"` // that it took when it was swept
}

// The kernels that have a geometry.
const (
	Product         = "product"
	GatedProduct    = "gated_product"
	Absorb          = "absorb"
	GatedExperts    = "gated_experts"
	ExpertsAdd      = "experts_add"
	Route           = "route"
	ProductTile     = "product_tile"
	GatedTile       = "gated_tile"
	ExpertGatedTile = "expert_gated_tile"
	ExpertDownTile  = "expert_down_tile"
	Attention       = "attention"
	AttentionTile   = "attention_tile"
)

// variants are the geometries that there are kernels of, for each number of inputs; of tiles and attention, under 0.
type variants struct {
	rows       map[int][]int // rows of weights, by inputs
	simdgroups []int
	tile       []int // inputs of a tile
	from       bool
}

var (
	fewGroups    = []int{1, 2, 4, 8}
	kernelShapes = map[string]variants{
		Product:         {rows: map[int][]int{1: {1, 2, 4}, 2: {2, 4}, 4: {2, 4}, 8: {1, 2}}, simdgroups: fewGroups},
		GatedProduct:    {rows: map[int][]int{1: {1, 2, 4}, 2: {1, 2}, 4: {1, 2}, 8: {1}}, simdgroups: fewGroups},
		Absorb:          {rows: map[int][]int{1: {1, 2, 4}, 8: {1, 2}}, simdgroups: fewGroups},
		GatedExperts:    {rows: map[int][]int{1: {1, 2, 4}}, simdgroups: fewGroups},
		ExpertsAdd:      {rows: map[int][]int{1: {1, 2, 4}}, simdgroups: fewGroups},
		Route:           {rows: map[int][]int{1: {1, 2}}, simdgroups: []int{8, 16, 32}},
		ProductTile:     {rows: map[int][]int{0: {32, 64}}, tile: []int{32, 64}, from: true},
		GatedTile:       {rows: map[int][]int{0: {32, 64}}, tile: []int{32, 64}, from: true},
		ExpertGatedTile: {rows: map[int][]int{0: {32, 64}}, tile: []int{32}, from: true},
		ExpertDownTile:  {rows: map[int][]int{0: {32, 64}}, tile: []int{32}, from: true},
		Attention:       {rows: map[int][]int{0: {1, 2, 4}}, simdgroups: fewGroups, from: true},
		AttentionTile:   {from: true},
	}
)

// Candidates are all geometries of a kernel that takes so many inputs at once, which is 0 for tiles and attention. They hold
// for all types and shapes, and leave From as it is.
func Candidates(kernel string, inputs int) Geometry {
	v := kernelShapes[kernel]
	groups, tiles := v.simdgroups, v.tile
	if groups == nil {
		groups = []int{0}
	}
	if tiles == nil {
		tiles = []int{inputs}
	}
	var list Geometry
	for _, rows := range v.rows[inputs] {
		for _, n := range groups {
			for _, t := range tiles {
				list = append(list, Choice{Kernel: kernel, Inputs: t, Rows: rows, Simdgroups: n})
			}
		}
	}
	return list
}

// AllCandidates is the candidates of all kernels: a backend that is opened with them can use every geometry.
func AllCandidates() Geometry {
	var all Geometry
	for kernel, v := range kernelShapes {
		for inputs := range v.rows {
			all = append(all, Candidates(kernel, inputs)...)
		}
	}
	return all
}

// check finds what there is no kernel for.
func (c *Choice) check() error {
	v, ok := kernelShapes[c.Kernel]
	if !ok {
		return fmt.Errorf("kernel %q is not known", c.Kernel)
	}
	refuse := func(what string, n int, allowed []int) error {
		return fmt.Errorf("%s has no %s of %d, but %v", c.Kernel, what, n, allowed)
	}
	inputs := 0
	if v.rows[0] == nil {
		inputs = c.Inputs
	}
	switch rows := v.rows[inputs]; {
	case c.Type != "" && !slices.ContainsFunc(weightTypes, func(t gguf.Type) bool { return t.String() == c.Type }):
		return fmt.Errorf("%s of type %q: there are kernels for %v", c.Kernel, c.Type, weightTypes)
	case (c.In == 0) != (c.Out == 0) || min(c.In, c.Out, c.From) < 0:
		return fmt.Errorf("%s of %d by %d from %d on", c.Kernel, c.In, c.Out, c.From)
	case v.tile == nil && v.rows[0] == nil && v.rows != nil && rows == nil:
		return fmt.Errorf("%s for %d inputs at once", c.Kernel, c.Inputs)
	case c.Rows != 0 && !slices.Contains(rows, c.Rows):
		return refuse("rows", c.Rows, rows)
	case c.Simdgroups != 0 && !slices.Contains(v.simdgroups, c.Simdgroups):
		return refuse("simdgroups", c.Simdgroups, v.simdgroups)
	case v.tile != nil && c.Inputs != 0 && !slices.Contains(v.tile, c.Inputs):
		return refuse("inputs", c.Inputs, v.tile)
	case c.From > 0 && !v.from:
		return fmt.Errorf("%s has no rows from which on it is used", c.Kernel)
	}
	return nil
}

// weightTypes are the types that kernels read; EACH_TYPE of defs.h lists the same.
var weightTypes = gguf.Types()

// closeness orders choices by what they name.
func (c *Choice) closeness() (n int) {
	for i, named := range []bool{c.Device != "", c.Type != "", c.In > 0} {
		if named {
			n |= 1 << i
		}
	}
	return n
}

// same tells whether two choices are for the same thing.
func (c *Choice) same(o *Choice) bool {
	inputs := kernelShapes[c.Kernel].tile != nil || c.Inputs == o.Inputs
	return c.Device == o.Device && c.Kernel == o.Kernel && c.Type == o.Type && c.In == o.In && c.Out == o.Out && inputs
}

// With is the geometry with other choices in it, in place of those for the same things.
func (g Geometry) With(more Geometry) Geometry {
	all := slices.Clone(g)
	for i := range more {
		c := &more[i]
		all = slices.DeleteFunc(all, func(have Choice) bool { return have.same(c) })
		all = append(all, *c)
	}
	return all
}

// find is what is chosen for a kernel. inputs is 0 for tiles and attention.
func (g Geometry) find(kernel string, t gguf.Type, in, out, inputs int) (found Choice) {
	name := t.String()
	var fitting []*Choice
	for i := range g {
		c := &g[i]
		if c.Kernel == kernel && (c.Type == "" || c.Type == name) && (c.In == 0 || c.In == in && c.Out == out) && (inputs == 0 || c.Inputs == inputs) {
			fitting = append(fitting, c)
		}
	}
	slices.SortStableFunc(fitting, func(a, b *Choice) int { return a.closeness() - b.closeness() })
	for _, c := range fitting {
		overlay(&found.Inputs, c.Inputs)
		overlay(&found.Rows, c.Rows)
		overlay(&found.Simdgroups, c.Simdgroups)
		overlay(&found.From, c.From)
	}
	return found
}

func overlay(dst *int, v int) {
	if v != 0 {
		*dst = v
	}
}

// ofDevice is the choices for a device.
func (g Geometry) ofDevice(name string) Geometry {
	return slices.DeleteFunc(slices.Clone(g), func(c Choice) bool { return c.Device != "" && c.Device != name })
}

// deviceName is what choices for a device name it by.
func deviceName(i Info) string {
	if i.Family != "" {
		return i.Family
	}
	return i.Driver
}

//go:embed geometry.json
var defaultText string

// DefaultGeometry is the choices that come with the program. They are taken from what is published of other engines; none
// has been measured on a GPU.
func DefaultGeometry() Geometry {
	g, err := ReadGeometry(strings.NewReader(defaultText))
	if err != nil {
		panic(err) // a test reads it
	}
	return g
}
