package metal

import (
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// kernelArguments has the argument structs of the kernels, by file and name.
var kernelArguments = map[string]any{
	"absorb.metal AbsorbArgs": absorbArgs{}, "attention.h AttentionArgs": attentionArgs{},
	"draw.h DrawRowArgs": drawRowArgs{}, "draw.metal DrawArgs": drawArgs{},
	"experts.h ExpertArgs": expertArgs{}, "route.metal GroupArgs": groupArgs{}, "experts.h RouteArgs": routeArgs{}, "route.metal WeighArgs": weighArgs{},
	"norm.metal NormArgs": normArgs{}, "product.metal GateArgs": gateArgs{}, "product.metal GatedArgs": gatedArgs{}, "product.metal ProductArgs": productArgs{},
	"rows.metal AffineArgs": affineArgs{}, "rows.metal GatingArgs": gatingArgs{}, "rows.metal SoftCapArgs": softCapArgs{}, "rows.metal EmbedArgs": embedArgs{}, "rows.metal GatherArgs": gatherArgs{}, "sample.metal TopArgs": topArgs{},
	"recurrence.h RecurrenceArgs": recurrenceArgs{}, "states.metal ConvolveArgs": convolveArgs{}, "states.metal GatedNormArgs": gatedNormArgs{},
	"store.metal LatentsArgs": latentsArgs{}, "store.metal RopeStoreArgs": ropeStoreArgs{}, "store.metal ShortConvArgs": shortConvArgs{}, "tiles.metal TileArgs": tileArgs{},

	"activations.h LatentArgs": latentArgs{}, "activations.h LatentsArgs": nvidiaLatentsArgs{}, "activations.h NormArgs": normArgs{},
	"activations.h ChainArgs": chainArgs{}, "activations.h GateArgs": gateRowsArgs{},
	"split.h BalancedArgs": balancedArgs{}, "activations.h QuantiseArgs": quantiseArgs{}, "activations.h RotateArgs": rotateArgs{}, "attend.h AttentionArgs": nvidiaAttentionArgs{},
	"choose.h RouteArgs": nvidiaRouteArgs{}, "choose.cu RowRouteArgs": rowRouteArgs{}, "choose.cu NormRouteArgs": normRouteArgs{}, "store.cu RopeStoreArgs": ropeStoreArgs{},
	"recurrence.cu ConvolveArgs": convolveStepArgs{}, "recurrence.cu DeltaArgs": deltaArgs{}, "recurrence.cu HeadNormArgs": headNormArgs{},
	"experts.h ExpertsArgs": packedExpertsArgs{}, "experts.h GroupArgs": choicesArgs{}, "experts.h RowExpertsArgs": rowExpertsArgs{},
	"experts.h RowGatedExpertsArgs": rowGatedArgs{}, "experts.h WeighArgs": weighChoicesArgs{}, "pack.h EmbedArgs": packedArgs{}, "pack.h PackArgs": packArgs{},
	"product.h GatedArgs": packedGatedArgs{}, "product.h ProductArgs": packedProductArgs{}, "product.h RowArgs": rowArgs{}, "product.h RowGatedArgs": rowGatedProductArgs{},
}

// TestArguments compares the argument structs of this package with those of the kernels: their
// fields and sizes.
func TestArguments(t *testing.T) {
	t.Parallel()
	structs := argumentStructs(t)
	for name, value := range kernelArguments {
		require.Contains(t, structs, name)
		kind := reflect.TypeOf(value)
		fields := fieldsOf("", kind)
		require.Equal(t, structs[name], fields, name)
		require.Equal(t, 4*len(fields), int(kind.Size()), name)
	}
	require.Len(t, structs, len(kernelArguments), "every struct of arguments in the kernels is compared")
}

// argumentStructs returns the fields of the kernels' argument structs, such as "uint row_bytes". A
// struct within a struct is replaced by its fields.
func argumentStructs(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	in := map[string]map[string][]string{} // by name, in one folder
	require.NoError(t, fs.WalkDir(kernels, "kernels", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(kernels, name)
		folder := path.Dir(name)
		if in[folder] == nil {
			in[folder] = map[string][]string{}
		}
		for _, m := range regexp.MustCompile(`(?s)struct (\w+Args) \{\n(.*?)\n\};`).FindAllStringSubmatch(string(text), -1) {
			all[path.Base(name)+" "+m[1]] = parseFields(t, m[2], in[folder])
			in[folder][m[1]] = all[path.Base(name)+" "+m[1]]
		}
		return err
	}))
	return all
}

func parseFields(t *testing.T, body string, known map[string][]string) (fields []string) {
	t.Helper()
	for line := range strings.Lines(body) {
		line, _, _ = strings.Cut(line, "//")
		kind, names, found := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), ";"), " ")
		require.True(t, found, line)
		for name := range strings.SplitSeq(names, ", ") {
			if kind != "uint" && kind != "float" {
				require.Contains(t, known, kind)
				for _, field := range known[kind] {
					kind, inner, _ := strings.Cut(field, " ")
					fields = append(fields, kind+" "+name+"."+inner)
				}
				continue
			}
			fields = append(fields, kind+" "+name)
		}
	}
	return fields
}

// fieldsOf returns the fields of a struct in the form of parseFields.
func fieldsOf(prefix string, kind reflect.Type) (fields []string) {
	for i := range kind.NumField() {
		f := kind.Field(i)
		name := prefix + snakeCase(strings.TrimSuffix(f.Name, "Args"))
		switch f.Type.Kind() {
		case reflect.Struct:
			inner := name + "."
			if strings.EqualFold(kind.Name(), "nvidia"+f.Name) { // the struct is a longer one of the same name
				inner = prefix
			}
			fields = append(fields, fieldsOf(inner, f.Type)...)
		case reflect.Array:
			for n := range f.Type.Len() {
				fields = append(fields, "uint "+name+strconv.Itoa(n))
			}
		case reflect.Float32:
			fields = append(fields, "float "+name)
		default:
			fields = append(fields, map[reflect.Kind]string{reflect.Uint32: "uint"}[f.Type.Kind()]+" "+name)
		}
	}
	return fields
}

func snakeCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
