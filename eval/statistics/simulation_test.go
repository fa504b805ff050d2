package statistics

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// gated collects the comparisons of a gate.
type gated struct {
	compared []Comparison
	tests    [][]Observation
}

func (g *gated) add(task string, base, candidate []float64, cluster []string) {
	var test []Observation
	for i := range base {
		unit := strconv.Itoa(i)
		if cluster != nil {
			unit = cluster[i]
		}
		if n := len(test); n > 0 && test[n-1].Unit == task+unit {
			test[n-1].Difference += candidate[i] - base[i]
		} else {
			test = append(test, Observation{task + unit, candidate[i] - base[i]})
		}
	}
	g.compared, g.tests = append(g.compared, Compare(base, candidate, cluster)), append(g.tests, test)
}

// verdict returns the verdict of the gate: the worst of its comparisons.
func (g *gated) verdict(margin float64) Verdict {
	verdict := Pass
	for i, p := range MaxT(g.tests) {
		c := &g.compared[i]
		switch c.Gate(margin, max(p, c.Worse), false) {
		case Fail:
			return Fail
		case Inconclusive:
			verdict = Inconclusive
		}
	}
	return verdict
}

// simulated are two runs of one model which does not repeat its answers exactly: UsualChange of the
// rows are right in one run only. The candidate then loses a share of the rows.
type simulated struct {
	rows, metrics int // with several metrics, seven of ten rows are right by all of them or by none
	loss          float64
}

const rightShare = 0.59 // of a run's rows

func (s simulated) gate(random *rand.Rand) *gated {
	base, candidate := make([][]float64, s.metrics), make([][]float64, s.metrics)
	for range s.rows {
		together, lost := random.Float64() < 0.7, random.Float64() < s.loss/rightShare
		var row [2]float64
		for k := range s.metrics {
			if k == 0 || !together {
				row = scoresOfARow(random)
			}
			base[k], candidate[k] = append(base[k], row[0]), append(candidate[k], row[1])
			if lost {
				candidate[k][len(candidate[k])-1] = 0
			}
		}
	}
	g := new(gated)
	for k := range s.metrics {
		g.add("", base[k], candidate[k], nil)
	}
	return g
}

// scoresOfARow draws the scores of a row in two runs of one model.
func scoresOfARow(random *rand.Rand) [2]float64 {
	switch u := random.Float64(); {
	case u < UsualChange/2:
		return [2]float64{1, 0}
	case u < UsualChange:
		return [2]float64{0, 1}
	case u < UsualChange/2+rightShare:
		return [2]float64{1, 1}
	}
	return [2]float64{}
}

// simulatedMargin is the margin of tasks that set none.
const simulatedMargin = 0.03

// BenchmarkGate prints how often gates decide wrongly, and how often they do not decide. The table
// in docs/eval.md comes from
//
//	go test -run xxx -bench Gate -benchtime 2000x ./eval/statistics
func BenchmarkGate(b *testing.B) {
	for _, rows := range []int{500, 700, 1000} {
		for _, metrics := range []int{1, 2} {
			b.Run(fmt.Sprintf("rows=%d/metrics=%d", rows, metrics), func(b *testing.B) {
				random := rand.New(rand.NewPCG(99, 1)) //nolint:gosec // a simulation needs no secure random numbers
				var same, worse = map[Verdict]int{}, map[Verdict]int{}
				gates := 0
				for b.Loop() {
					same[simulated{rows, metrics, 0}.gate(random).verdict(simulatedMargin)]++
					worse[simulated{rows, metrics, 0.05}.gate(random).verdict(simulatedMargin)]++
					gates++
				}
				percent := func(n int) float64 { return 100 * float64(n) / float64(gates) }
				b.ReportMetric(percent(same[Fail]), "%false-alarms")
				b.ReportMetric(percent(same[Inconclusive]), "%inconclusive")
				b.ReportMetric(percent(worse[Fail]), "%found")
				b.ReportMetric(percent(worse[Pass]), "%missed")
				b.ReportMetric(0, "ns/op") // not measured
			})
		}
	}
}

// TestGatesDecide simulates gates with as many rows as RowsToDecide advises: an unchanged model
// passes, and a loss of 5 points is found. Two standard errors more than 5 false alarms are
// allowed.
func TestGatesDecide(t *testing.T) {
	t.Parallel()
	const gates, metrics = 100, 2
	rows := RowsToDecide(simulatedMargin, metrics)
	require.LessOrEqual(t, rows, 1000)
	random := rand.New(rand.NewPCG(15, 16)) //nolint:gosec // a simulation needs no secure random numbers
	same, worse := map[Verdict]int{}, map[Verdict]int{}
	for range gates {
		same[simulated{rows, metrics, 0}.gate(random).verdict(simulatedMargin)]++
		worse[simulated{rows, metrics, 0.05}.gate(random).verdict(simulatedMargin)]++
	}
	t.Log(same, worse)
	require.LessOrEqual(t, same[Fail], 9)
	require.LessOrEqual(t, same[Inconclusive], 20)
	require.GreaterOrEqual(t, worse[Fail], 97)
	require.Zero(t, worse[Pass])
}
