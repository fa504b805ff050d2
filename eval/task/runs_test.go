package task_test

import (
	"path/filepath"
	"testing"

	"github.com/ingot-run/ingot/eval/harnesstest"
)

func TestRunsOfTheHarness(t *testing.T) {
	t.Parallel()
	harnesstest.Test(t, filepath.Join("..", "testdata", "harness.json"))
}
