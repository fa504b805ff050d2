package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/rows"
)

func addFailLimit(flags *pflag.FlagSet, limit *rows.FailLimit) {
	flags.Var(limit, "fail-on-error", "exit with 3 if any row failed, or with =`N%` if more than N% of the rows failed (default 50%)")
	flags.Lookup("fail-on-error").NoOptDefVal = "0%"
}

func printFailures(cmd *cobra.Command, title string, codes map[string]rows.Failures) {
	for _, line := range rows.DescribeFailures(codes) {
		cmd.PrintErrln(title + line)
	}
}
