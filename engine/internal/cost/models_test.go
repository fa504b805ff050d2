package cost_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model/modeltest"
)

// TestMeasureModels measures a model of each kind. Tests of packages that open engines do not
// measure.
func TestMeasureModels(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, name := range modeltest.Micros(t) {
		paths = append(paths, modeltest.Micro(t, name))
	}
	for _, f := range modeltest.Archived(t) {
		paths = append(paths, f.Files[0])
	}
	for _, path := range paths {
		be, err := cpu.New(1)
		require.NoError(t, err)
		m := modeltest.Load(t, be, path)
		steps, err := cost.Measure(m, modeltest.Limits)
		require.NoError(t, err, path)
		require.Contains(t, steps.Sizes(), 16)
		one, many := steps.Seconds(cost.Rows(0, 1, 1)), steps.Seconds(cost.Size{Rows: 200, Outputs: 200, Reads: 200})
		require.Positive(t, one, path)
		require.Greater(t, many, one, path)
	}
	errBroken := errors.New("the device is lost")
	curve, err := cost.MeasureCurve([]int{1, 2}, func(int) error { return errBroken })
	require.ErrorIs(t, err, errBroken)
	require.Zero(t, curve.Seconds(1))
}
