package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	evalreport "github.com/ingot-run/ingot/eval/report"
)

func newEvalReport() *cobra.Command {
	var folder, out string
	o := evalreport.Options{Version: programVersion()}
	cmd := &cobra.Command{
		Use:   "report -o FILE.html [CANDIDATE]",
		Short: "Write a page about a folder of runs",
		Long: `Report writes an HTML page about the runs in a folder. It compares CANDIDATE, by default the latest run, with a baseline,
and shows scores over time, lengths and latencies of answers, and the rows that changed, with both texts. The page needs no
other file and no network.

With --baseline NAME, the baseline is the run that is pinned as NAME or has this name. Otherwise it is the only pinned run,
or else the first run.`,
		Example: `  ingot eval report -o report.html
  ingot eval report -o report.html --runs runs --baseline production tonight`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return arguments("CANDIDATE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("-o FILE.html is missing")
			}
			if len(args) > 0 {
				o.Candidate = args[0]
			}
			var page bytes.Buffer
			if err := evalreport.Write(&page, folder, o); err != nil {
				return err
			}
			if out == stdio {
				_, err := page.WriteTo(cmd.OutOrStdout())
				return err
			}
			if err := os.WriteFile(out, page.Bytes(), 0o644); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			path, err := filepath.Abs(out)
			if err != nil {
				return err
			}
			cmd.PrintErrln("report: " + printable(path))
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "write the page to `FILE`; - for stdout")
	cmd.Flags().StringVar(&o.Baseline, "baseline", "", "compare with the run that is pinned as `NAME`, or has this name")
	addRunsFlag(cmd.Flags(), &folder)
	return cmd
}
