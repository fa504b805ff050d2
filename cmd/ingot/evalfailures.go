package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// checkScored prints how many rows of each task of a run have no score, and why the first of them
// has none. It returns an error if no row of a task has a score, or if most rows have none.
func checkScored(cmd *cobra.Command, folder string, r *eval.Results) error {
	var failed, total int
	var none error
	for _, name := range slices.Sorted(maps.Keys(r.Samples)) {
		n := r.Samples[name]
		failed, total = failed+n.Failed, total+n.Original
		if n.Failed == 0 {
			continue
		}
		row, reason, err := eval.FirstFailure(folder, name)
		if err != nil {
			return err
		}
		cmd.PrintErrf("%s: %s without a score, the first of them row %d: %s\n", textfmt.Printable(name), countRows(n.Failed), row, textfmt.OneLine(reason))
		if n.Failed == n.Original && none == nil {
			none = fmt.Errorf("task %s: %w; row %d: %s", name, &rows.TooManyFailedError{Failed: n.Failed, Total: n.Original}, row, reason)
		}
	}
	if none != nil {
		return none
	}
	return rows.FailLimit{}.Check(failed, total)
}
