package translate

import (
	"fmt"
	"regexp"
	"strings"
)

// Kernel is the declaration of a kernel.
type Kernel struct {
	Name       string
	Template   string // its template header as written; empty for none
	MaxThreads int    // maximum threads per threadgroup from the kernel's attribute; 0 if it has none
	Parameters []Parameter
	Buffers    int    // number of parameters of kind Buffer, which come first, in the order of their indices
	Args       string // type of the argument struct; empty for none
	Shared     bool   // whether the kernel has a parameter for threadgroup memory
}

// Parameter is a parameter of a kernel.
type Parameter struct {
	Kind Kind
	Type string // C++ type: for Buffer and Shared the type to which the pointer points, for Args the struct
	// Attribute is Metal's attribute of the parameter, such as "thread_index_in_threadgroup".
	Attribute string
}

// Kind is the kind of a parameter.
type Kind int

// The kinds.
const (
	Buffer Kind = iota // a pointer to device memory
	Args               // the argument struct
	Shared             // a pointer to threadgroup memory
	Index              // a position or size in the grid
)

var (
	templateNames = regexp.MustCompile(`(\w+)\s*(?:=[^,>]*)?[,>]`)
	maxThreads    = regexp.MustCompile(`^max_total_threads_per_threadgroup\((\d+)\)$`)
	bufferIndex   = regexp.MustCompile(`^buffer\((\d+)\)$`)
	pointerTo     = regexp.MustCompile(`^ingot::(device|threadgroup)_ptr<(.*)>\s*\w+$`)
	structOf      = regexp.MustCompile(`^const\s+(\w+)\s*&\s*\w+$`)
)

// indices are the attributes of the positions and sizes that kernels can have as parameters.
var indices = map[string]bool{
	"threadgroup_position_in_grid": true, "threadgroups_per_grid": true, "thread_index_in_threadgroup": true,
	"thread_index_in_simdgroup": true, "simdgroup_index_in_threadgroup": true, "simdgroups_per_threadgroup": true,
}

// Call returns the expression that names the kernel inside its template, such as name<W, N>. For a
// kernel that is not a template, it returns the name.
func (k *Kernel) Call() string {
	if k.Template == "" {
		return k.Name
	}
	var names []string
	for _, m := range templateNames.FindAllStringSubmatch(k.Template, -1) {
		names = append(names, m[1])
	}
	return k.Name + "<" + strings.Join(names, ", ") + ">"
}

func (k *Kernel) add(declaration, attribute string) error {
	pointer := pointerTo.FindStringSubmatch(declaration)
	p := Parameter{Attribute: attribute}
	index := bufferIndex.FindStringSubmatch(attribute)
	isBuffer := len(index) == 2
	switch args := structOf.FindStringSubmatch(declaration); {
	case indices[attribute]:
		p.Kind = Index
	case isBuffer && (index[1] != fmt.Sprint(k.Buffers) || k.Args != ""):
		return fmt.Errorf("parameter %q has [[%s]]: buffers must be numbered from 0 without gaps, and the argument struct must be the last", declaration, attribute)
	case isBuffer && pointer != nil && pointer[1] == "device":
		p.Kind, p.Type = Buffer, pointer[2]
		k.Buffers++
	case isBuffer && args != nil:
		p.Kind, p.Type = Args, args[1]
		k.Args = args[1]
	case attribute == "threadgroup(0)" && pointer != nil && pointer[1] == "threadgroup":
		p.Kind, p.Type = Shared, pointer[2]
		k.Shared = true
	default:
		return fmt.Errorf("parameter %q with attribute [[%s]] is not supported: use a device pointer or the argument struct with [[buffer(N)]], "+
			"a threadgroup pointer with [[threadgroup(0)]], or an index", declaration, attribute)
	}
	k.Parameters = append(k.Parameters, p)
	return nil
}
