package cost

import "sync/atomic"

// given reports whether measurements are replaced by given durations.
var given atomic.Bool

// Give makes Measure and MeasureCurve return given durations, which are roughly those of a small
// model on a CPU, without computing anything. It is for tests of packages that open many engines.
func Give() { given.Store(true) }

// givenStep, givenRow, givenOutput and givenRead are the seconds of a step, of each of its rows, of
// each row that reaches the output head, and of each position that a row attends to.
const givenStep, givenRow, givenOutput, givenRead = 100e-6, 30e-6, 10e-6, 1e-9

// givenSteps returns estimates for steps of up to limit rows, up to outputs of which reach the
// output head. Steps correct them as they correct measured estimates.
func givenSteps(limit, outputs int) *Steps {
	_, rows := sizes(min(limit, outputs))
	for n := 2 * flatFrom; rows[len(rows)-1] == n/2 && n <= min(limit, 2*flatFrom); n *= 2 {
		rows = append(rows, n)
	}
	return &Steps{trunk: givenCurve(rows), head: givenOutput, output: givenOutput, read: givenRead, measured: true}
}

func givenCurve(rows []int) Curve {
	seconds := make([]float64, len(rows))
	for i, n := range rows {
		seconds[i] = givenStep + givenRow*float64(n)
	}
	return NewCurve(rows, seconds)
}
