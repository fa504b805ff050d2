package grammar

import (
	"context"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

const (
	maxHostileTime   = 100 * time.Millisecond // of a processor
	maxHostileMemory = 64 << 20
)

// ready compiles a constraint and computes the first mask.
func ready(v *Vocabulary, c *generation.Constraint) error {
	g, err := NewCompiler(v, Limits{}).Compile(context.Background(), c)
	if err != nil {
		return err
	}
	return g.NewMatcher().Mask(make([]uint32, v.words()))
}

// TestHostile shows that hostile constraints are refused or ready within their budget of memory and
// of counted steps, whose time the benchmark measures. INGOT_LONG=1 tests all of them.
func TestHostile(t *testing.T) {
	v := testVocabulary()
	list := hostiles()
	require.GreaterOrEqual(t, len(list), 500)
	kept, most := 0, uint64(0)
	for i, h := range list {
		if os.Getenv("INGOT_LONG") == "" && i%6 != 0 {
			continue
		}
		limits := Limits{}.withDefaults()
		r := newRules(t.Context(), limits)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start, err := r.constraint(&h.Constraint)
		if err == nil {
			_, err = newGrammar(r, start, v, limits, func(int64) {})
		}
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		most = max(most, allocated)
		assert.LessOrEqual(t, allocated, uint64(maxHostileMemory), h.name)
		// One step of a constructor may count more than one.
		assert.LessOrEqual(t, r.re.Work(), limits.CompileWork+limits.CompileWork/10, h.name)
		assert.LessOrEqual(t, r.size, limits.Symbols+limits.Symbols/10, h.name)
		if err == nil {
			kept++
			continue
		}
		var refused *Error
		require.ErrorAs(t, err, &refused, h.name)
		assert.NotEmpty(t, refused.Message, h.name)
	}
	t.Logf("%d kept; the most memory is %d MiB", kept, most>>20)
}

// BenchmarkHostile reports the most processor time that a hostile constraint takes to be refused or
// ready, its first mask included.
func BenchmarkHostile(b *testing.B) {
	v := testVocabulary()
	list := hostiles()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		var times []time.Duration
		over := 0
		for _, h := range list {
			start := threadTime()
			err := ready(v, &h.Constraint)
			took := threadTime() - start
			times = append(times, took)
			if took > maxHostileTime {
				over++
				b.Logf("%s: %v: %v", h.name, took, err)
			}
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
		b.ReportMetric(float64(times[len(times)-1].Microseconds()), "max-us")
		b.ReportMetric(float64(over), "over-100ms")
	}
}
