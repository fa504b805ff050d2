package shape_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/bench/shape"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"smollm-135m", "smollm-135m:3", "gpt-oss-20b", "glm-4.7-flash", "glm-4.7-flash:8"} {
		s, err := shape.Parse(name)
		require.NoError(t, err)
		require.Equal(t, name, s.Name())
	}
	for _, name := range []string{"", "smollm", "smollm-135m:31", "glm-4.7-flash:", "glm-4.7-flash:1", "glm-4.7-flash:48", "glm-4.7-flash:x"} {
		_, err := shape.Parse(name)
		require.Error(t, err, name)
	}
}

// TestLayouts plans the memory of every shape, which fails if the shape is not a complete model.
func TestLayouts(t *testing.T) {
	t.Parallel()
	be, err := cpu.New(1)
	require.NoError(t, err)
	for _, name := range strings.FieldsFunc(strings.ReplaceAll(shape.Names(), " and ", ", "), func(r rune) bool { return r == ',' || r == ' ' }) {
		name = strings.Replace(name, "[:LAYERS]", ":3", 1)
		s, err := shape.Parse(name)
		require.NoError(t, err)
		f, err := s.Layout(gguf.TypeQ4K)
		require.NoError(t, err)
		plan := be.Plan()
		require.NoError(t, model.Plan(be, plan, f, model.Limits{Rows: 8, Outputs: 8, Context: 256, Pages: 16, PageSize: 16, KV: gguf.TypeF16}), name)
		weights, _ := plan.Bytes()
		require.Positive(t, weights)
		require.NoError(t, f.Close())
	}
	require.NoError(t, be.Close())
}

// write writes a shape to a file.
func write(t testing.TB, name string, quant gguf.Type) string {
	t.Helper()
	s, err := shape.Parse(name)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "shape.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, s.Write(f, quant))
	require.NoError(t, f.Close())
	return path
}

// load loads a file for steps of up to 512 rows and for the given number of sequences of 1024
// positions.
func load(t testing.TB, path string, sequences int) (model.Model, *gguf.File) {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	be, err := cpu.New(0)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, be.Close())
		require.NoError(t, f.Close())
	})
	m, err := model.Load(be, f, model.Limits{
		Rows: 512, Outputs: sequences, Context: 1024, Pages: sequences * pagesEach, PageSize: pageSize, KV: gguf.TypeF16, States: sequences,
	})
	require.NoError(t, err)
	return m, f
}

const (
	pageSize  = 16
	pagesEach = 1024 / pageSize
)

func TestWrite(t *testing.T) {
	names := []string{"smollm-135m"}
	if os.Getenv("INGOT_LONG") != "" {
		names = append(names, "glm-4.7-flash:2")
	}
	for _, name := range names {
		for _, quant := range []gguf.Type{gguf.TypeQ40, gguf.TypeQ4K} {
			m, f := load(t, write(t, name, quant), 1)
			_, err := tokenizer.New(f.Meta())
			require.NoError(t, err)
			b := rowsOf(0, 1, 5, 0)
			logits, err := m.Forward(&b)
			require.NoError(t, err)
			sum, squares := 0.0, 0.0
			for _, v := range logits[0] {
				sum, squares = sum+float64(v), squares+float64(v)*float64(v)
			}
			n := float64(len(logits[0]))
			deviation := math.Sqrt(squares/n - sum/n*sum/n)
			require.True(t, deviation > 0.1 && deviation < 20, "the standard deviation of the logits of %s is %v", name, deviation)
		}
	}
}

func TestWriteRepeats(t *testing.T) {
	s, err := shape.Parse("smollm-135m")
	require.NoError(t, err)
	var a, b bytes.Buffer
	require.NoError(t, s.Write(&a, gguf.TypeQ40))
	require.NoError(t, s.Write(&b, gguf.TypeQ40))
	require.True(t, bytes.Equal(a.Bytes(), b.Bytes()))
}

// rowsOf returns a batch with n rows of each sequence, from a position on. The last row of each
// sequence is an output.
func rowsOf(position, sequences, n, seed int) compute.Batch {
	var b compute.Batch
	for s := range sequences {
		seq := compute.Seq{Rows: n}
		for p := range pagesEach {
			seq.Pages = append(seq.Pages, int32(s*pagesEach+p))
		}
		for i := range n {
			b.Tokens = append(b.Tokens, int32((seed*977+s*31+i*7919)%40000))
			b.Positions = append(b.Positions, int32(position+i))
		}
		b.Seqs = append(b.Seqs, seq)
		b.Outputs = append(b.Outputs, int32(s*n+n-1))
	}
	return b
}

// BenchmarkSteps times whole steps of smollm-135m in Q4_0. With INGOT_LONG, it also times steps of
// the first layers of GLM-4.7-Flash.
func BenchmarkSteps(b *testing.B) {
	names := []string{"smollm-135m"}
	if os.Getenv("INGOT_LONG") != "" {
		names = append(names, "glm-4.7-flash:8")
	}
	for _, name := range names {
		path := write(b, name, gguf.TypeQ40)
		m, _ := load(b, path, 32)
		for _, c := range []struct {
			name                      string
			position, sequences, rows int
		}{{"prefill512", 0, 1, 512}, {"decode1", 128, 1, 1}, {"decode8", 128, 8, 1}, {"decode32", 128, 32, 1}} {
			b.Run(name+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				batch := rowsOf(c.position, c.sequences, c.rows, 1)
				for b.Loop() {
					_, err := m.Forward(&batch)
					require.NoError(b, err)
				}
				b.ReportMetric(float64(c.sequences*c.rows)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
			})
		}
	}
}
