package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

// printRequests prints the requests of an input to stdout, and to stderr why rows are none. It
// fails if most rows are none. check is as for rows.WriteRequests; nil accepts all rows.
func printRequests(cmd *cobra.Command, in *prompt.Input, ignoreUnknown bool, check func(rows.Row) (int, *openai.Error)) error {
	if check == nil {
		check = func(rows.Row) (int, *openai.Error) { return 0, nil }
	}
	reader := rows.NewReader(in, rows.Options{Format: in.Format, IgnoreUnknown: ignoreUnknown})
	failed, total, err := rows.WriteRequests(cmd.Context(), cmd.OutOrStdout(), reader, check, func(reason string) { cmd.PrintErrln(textfmt.Printable(reason)) })
	if err != nil {
		return err
	}
	return rows.FailLimit{}.Check(failed, total)
}
