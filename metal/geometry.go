package metal

import (
	_ "embed" // for geometry.json
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Geometry lists choices of how operations are spread over a GPU. It does not change results. If
// several choices apply to a kernel, the most specific one wins: a choice for a shape wins over one
// for a type, which wins over one for a device. Among equally specific choices, the last one wins.
// Fields that are empty in the winning choice are taken from the next most specific one.
type Geometry []Choice

// Choice defines how one kernel is spread over a GPU. Device, Type, In and Out limit the cases to
// which the choice applies; an empty field does not limit them.
type Choice struct {
	Device string `json:"device,omitempty"` // Info.Family, such as "Apple9"; for devices without a family, Info.Driver
	Kernel string `json:"kernel"`           // one of the kernel constants below
	Type   string `json:"type,omitempty"`   // GGUF type of the weights or the cache
	In     int    `json:"in,omitempty"`     // length of a row of weights, or of a key
	Out    int    `json:"out,omitempty"`    // rows of a matrix, or length of a value
	// Inputs is the number of rows of activations that the kernel processes at once. For kernels
	// for few rows, it is 1, 2, 4 or 8 and limits the cases to which the choice applies. For tiles,
	// it is 16 or 32 and is part of what is chosen.
	Inputs int `json:"inputs,omitempty"`

	Rows       int `json:"rows,omitempty"`       // rows of weights per team or tile; for attention, the maximum number of query heads, and for its tiles of pairs
	Simdgroups int `json:"simdgroups,omitempty"` // maximum number per threadgroup; empty for tiles, since their size determines it
	// From is the minimum number of rows for which tiles are used; for experts, of rows that use a
	// sixteenth of the experts each. For attention, it is the minimum number of positions for which
	// the keys are split.
	From int `json:"from,omitempty"`
	// Tiles belongs to From of tiles other than those of experts: the minimum number of tiles in a
	// product of at least From rows. Fewer tiles do not occupy the GPU, and kernels for few rows
	// are used.
	Tiles int `json:"tiles,omitempty"`
	// Wide and WideTiles are From and Tiles of wide tiles, which have wideTileRows rows of weights
	// and wideTileInputs of activations, whatever Rows and Inputs are. Without a choice that has
	// Wide, they are not used.
	Wide      int `json:"wide,omitempty"`
	WideTiles int `json:"wide_tiles,omitempty"`

	Microseconds float64 `json:"microseconds,omitempty"` // time of the kernel in the sweep that made the choice; 0 if it was not measured
}

// The kernels that have a geometry.
const (
	Product         = "product"
	GatedProduct    = "gated_product"
	Absorb          = "absorb"
	GatedExperts    = "gated_experts"
	ExpertsDown     = "experts_down"
	ExpertsAdd      = "experts_add"
	ProductTile     = "product_tile"
	GatedTile       = "gated_tile"
	ExpertGatedTile = "expert_gated_tile"
	ExpertDownTile  = "expert_down_tile"
	Attention       = "attention"
	AttentionTile   = "attention_tile"
)

// variants are the geometries for which a kernel can be compiled.
type variants struct {
	rows       map[int][]int // allowed values of Rows for each number of inputs; the key is 0 for tiles and attention
	simdgroups []int         // allowed values of Simdgroups; nil for tiles
	tile       []int         // allowed values of Inputs for tiles
	from       bool          // From applies to the kernel
	tiles      bool          // Tiles and WideTiles apply to the kernel
}

var (
	fewGroups    = []int{1, 2, 4, 8}
	kernelShapes = map[string]variants{
		Product:         {rows: map[int][]int{1: {1, 2, 4}, 2: {1, 2}, 4: {1, 2, 4}, 8: {1, 2, 4}}, simdgroups: fewGroups},
		GatedProduct:    {rows: map[int][]int{1: {1, 2, 4}, 2: {1, 2}, 4: {1, 2, 4}, 8: {1, 2, 4}}, simdgroups: fewGroups},
		Absorb:          {rows: map[int][]int{1: {1, 2, 4}, 8: {1, 2, 4}}, simdgroups: fewGroups},
		GatedExperts:    {rows: map[int][]int{1: {1, 2, 4}, 2: {1, 2}, 4: {1, 2, 4}, 8: {1, 2, 4}}, simdgroups: fewGroups},
		ExpertsDown:     {rows: map[int][]int{2: {1, 2}, 4: {1, 2, 4}, 8: {1, 2, 4}}, simdgroups: fewGroups},
		ExpertsAdd:      {rows: map[int][]int{1: {1, 2, 4}}, simdgroups: fewGroups},
		ProductTile:     {rows: map[int][]int{0: {32, 64}}, tile: []int{16, 32}, from: true, tiles: true},
		GatedTile:       {rows: map[int][]int{0: {32, 64}}, tile: []int{16, 32}, from: true, tiles: true},
		ExpertGatedTile: {rows: map[int][]int{0: {32, 64}}, tile: []int{32}, from: true},
		ExpertDownTile:  {rows: map[int][]int{0: {32, 64}}, tile: []int{32}, from: true},
		Attention:       {rows: map[int][]int{0: {1, 2, 4}}, from: true},
		AttentionTile:   {rows: map[int][]int{0: {16, 32}}, from: true},
	}
)

// Candidates returns all geometries of a kernel for a value of Choice.Inputs; inputs is 0 for tiles
// and attention. The geometries apply to all types and shapes, and their From and Wide are empty.
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

// AllCandidates returns the candidates of all kernels. A backend that is opened with this geometry
// can later use any other geometry; see Backend.Use.
func AllCandidates() Geometry {
	var all Geometry
	for kernel, v := range kernelShapes {
		for inputs := range v.rows {
			all = append(all, Candidates(kernel, inputs)...)
		}
	}
	return all
}

// Check returns an error if no kernel can be compiled for a choice of the geometry.
func (g Geometry) Check() error {
	for i := range g {
		if err := g[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if no kernel can be compiled for the choice.
func (c *Choice) check() error {
	v, ok := kernelShapes[c.Kernel]
	if !ok {
		return fmt.Errorf("kernel %q has no geometry: use the name of a kernel that has one, such as product", c.Kernel)
	}
	refuse := func(what string, n int, allowed []int) error {
		if len(allowed) == 0 {
			return fmt.Errorf("%s: %s does not apply to this kernel: leave it out", c.Kernel, what)
		}
		return fmt.Errorf("%s: %s is %d, but must be left out or one of %v", c.Kernel, what, n, allowed)
	}
	inputs := 0
	if v.rows[0] == nil {
		inputs = c.Inputs
	}
	switch rows := v.rows[inputs]; {
	case c.Type != "" && !slices.ContainsFunc(weightTypes, func(t gguf.Type) bool { return t.String() == c.Type }):
		return fmt.Errorf("%s of type %q: the supported types are %v", c.Kernel, c.Type, weightTypes)
	case (c.In == 0) != (c.Out == 0) || min(c.In, c.Out, c.From, c.Wide) < 0:
		return fmt.Errorf("%s: in is %d, out is %d, from is %d and wide is %d: none may be negative, and in and out must be given together", c.Kernel, c.In, c.Out, c.From, c.Wide)
	case v.tile == nil && v.rows[0] == nil && v.rows != nil && rows == nil:
		return fmt.Errorf("%s: inputs is %d, but no kernel processes this number of rows of activations at once", c.Kernel, c.Inputs)
	case c.Rows != 0 && !slices.Contains(rows, c.Rows):
		return refuse("rows", c.Rows, rows)
	case c.Simdgroups != 0 && !slices.Contains(v.simdgroups, c.Simdgroups):
		return refuse("simdgroups", c.Simdgroups, v.simdgroups)
	case v.tile != nil && c.Inputs != 0 && !slices.Contains(v.tile, c.Inputs):
		return refuse("inputs", c.Inputs, v.tile)
	case c.Wide > 0 && v.tile == nil:
		return fmt.Errorf("%s: wide does not apply to this kernel", c.Kernel)
	case c.From > 0 && !v.from:
		return fmt.Errorf("%s: from does not apply to this kernel", c.Kernel)
	case max(c.Tiles, c.WideTiles) > 0 && v.tile != nil && !v.tiles:
		return fmt.Errorf("%s: tiles and wide_tiles do not apply to this kernel: from and wide alone decide", c.Kernel)
	case c.Tiles != 0 && (c.Tiles < 0 || v.tile == nil || c.From == 0):
		return fmt.Errorf("%s: tiles is %d, but it must not be negative, and only choices for tiles with from can have it", c.Kernel, c.Tiles)
	case c.WideTiles != 0 && (c.WideTiles < 0 || c.Wide == 0):
		return fmt.Errorf("%s: wide_tiles is %d, but it must not be negative, and only choices with wide can have it", c.Kernel, c.WideTiles)
	}
	return nil
}

// weightTypes are the types of weights that kernels can read.
var weightTypes = gguf.Types()

// closeness returns a number that is higher for more specific choices.
func (c *Choice) closeness() (n int) {
	for i, named := range []bool{c.Device != "", c.Type != "", c.In > 0} {
		if named {
			n |= 1 << i
		}
	}
	return n
}

// same reports whether two choices apply to the same kernel, device, type, shape and inputs.
func (c *Choice) same(o *Choice) bool {
	inputs := kernelShapes[c.Kernel].tile != nil || c.Inputs == o.Inputs
	return c.Device == o.Device && c.Kernel == o.Kernel && c.Type == o.Type && c.In == o.In && c.Out == o.Out && inputs
}

// With returns a geometry with the choices of g and of the parameter more. A choice of the latter
// replaces one of g for the same kernel, device, type, shape and inputs.
func (g Geometry) With(more Geometry) Geometry {
	all := slices.Clone(g)
	for i := range more {
		c := &more[i]
		all = slices.DeleteFunc(all, func(have Choice) bool { return have.same(c) })
		all = append(all, *c)
	}
	return all
}

// hasWideTiles reports whether wide tiles are chosen for a kernel and a type, for any shape.
func (g Geometry) hasWideTiles(kernel string, t gguf.Type) bool {
	return slices.ContainsFunc(g, func(c Choice) bool { return c.Wide > 0 && c.Kernel == kernel && (c.Type == "" || c.Type == t.String()) })
}

// find merges the choices that apply to a kernel. inputs is 0 for tiles and attention.
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
		if c.From != 0 {
			found.From, found.Tiles = c.From, c.Tiles
		}
		if c.Wide != 0 {
			found.Wide, found.WideTiles = c.Wide, c.WideTiles
		}
	}
	return found
}

func overlay(dst *int, v int) {
	if v != 0 {
		*dst = v
	}
}

// ofDevice returns the choices whose Device is the given name, and those for all devices.
func (g Geometry) ofDevice(name string) Geometry {
	return slices.DeleteFunc(slices.Clone(g), func(c Choice) bool { return c.Device != "" && c.Device != name })
}

func deviceName(i Info) string {
	if i.Family != "" {
		return i.Family
	}
	return i.Driver
}

//go:embed geometry.json
var defaultText string

// DefaultGeometry returns the geometry that comes with the program. Its choices for all devices
// follow those that other engines have published. Those for a device follow from measurements of a
// few shapes there; see docs/notes/metal.md.
func DefaultGeometry() Geometry {
	g, err := ReadGeometry(strings.NewReader(defaultText))
	if err != nil {
		panic(err) // not reached: the file is part of the program, and a test reads it
	}
	return g
}
