package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/metal"
)

// TestThePlanIsWhatLoadTakes compares the plan of a model's memory with the memory that loading the
// model allocates on the device.
func TestThePlanIsWhatLoadTakes(t *testing.T) {
	t.Parallel()
	plansAreExact(t, emulated)
}

func TestThePlanIsWhatLoadTakesOnGPU(t *testing.T) { eachGPU(t, plansAreExact) }

func plansAreExact(t *testing.T, start starter) {
	t.Helper()
	for _, path := range bundled {
		planIsExact(t, start(t, metal.Options{}), path, model.Limits{})
	}
}

// planIsExact closes the backend. It uses the numbers of states and of drafts in limits.
func planIsExact(t *testing.T, be *metal.Backend, path string, limits model.Limits) {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	limits.Rows, limits.Outputs, limits.Context, limits.Pages, limits.PageSize, limits.KV = 512, 80, 1024, 96, 16, gguf.TypeF16
	before, err := be.Free()
	require.NoError(t, err)
	plan := be.Plan()
	require.NoError(t, model.Plan(be, plan, f, limits))
	free, err := be.Free()
	require.NoError(t, err)
	require.Equal(t, before, free, "a plan allocates no memory")

	_, err = model.Load(be, f, limits)
	require.NoError(t, err)
	free, err = be.Free()
	require.NoError(t, err)
	c, err := model.ReadConfig(f)
	require.NoError(t, err)
	position, err := c.PositionBytes(limits.KV)
	require.NoError(t, err)
	c.States.Drafts = limits.Drafts
	planned := int64(limits.Pages*limits.PageSize*position) + int64(limits.States)*c.States.SlotBytes()
	weights, steps := plan.Bytes()
	require.Equal(t, before-free-planned, weights+steps, path)
	require.NoError(t, be.Close())
	require.NoError(t, f.Close())
}
