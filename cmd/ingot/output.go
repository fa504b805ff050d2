package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/internal/textfmt"
)

type outputFlags struct {
	export.Flags
	tables *pflag.FlagSet // flags that apply only to tables
}

// Sections of a command's flags in its help.
const (
	outputs = "Output"
	filters = "Table Filter"
)

func (o *outputFlags) add(flags *pflag.FlagSet, what string) {
	flags.StringVarP(&o.Path, "out", "o", "", "write "+what+" to `OUT`; - for stdout")
	flags.StringVar(&o.Format, "output-format", "", "write OUT as `FORMAT`: "+export.FormatNames()+" (default by its extension, else batch)")
	flags.BoolVar(&o.Ordered, "ordered", false, "at the end, sort batch lines in the order of the input; tables always have this order")
	section(flags, outputs, "output-format", "ordered")

	o.tables = pflag.NewFlagSet("", pflag.ContinueOnError)
	f := o.tables
	f.SortFlags = false
	f.StringVar(&o.Prefix, "column-prefix", "", "put `PREFIX` before the names of generated columns")
	f.StringVar(&o.ColumnsFrom, "columns-from", "",
		"make columns of the properties of answers: `json`, which needs answers that are JSON objects, or none (default none)")
	f.StringVar(&o.Extract, "extract", "", "make a column of each named group of the regular expression `RE`, such as 'Score: (?P<score>\\d+)'")
	f.StringSliceVar(&o.Columns, "columns", nil, "write only the columns `COLUMN`,..., in this order")
	f.StringVar(&o.Types, "types", export.TypesAuto, "`TYPES` of CSV columns in Parquet: auto (numbers where all cells are numbers) or text")
	f.StringVar(&o.Failed, "failed", "", "write rows that failed to `FILE` instead of OUT, in the format and columns of the input")
	f.StringSliceVar(&o.KeepFinish, "keep-finish", nil, "keep only answers with a finish reason in `REASON`,..., such as stop")
	f.StringArrayVar(&o.Match, "match", nil, "keep only answers that the regular expression `RE` matches; may be repeated")
	f.StringArrayVar(&o.NotMatch, "not-match", nil, "drop answers that the regular expression `RE` matches; may be repeated")
	f.IntVar(&o.MinChars, "min-chars", 0, "drop answers of fewer than `N` characters")
	f.IntVar(&o.MaxChars, "max-chars", 0, "drop answers of more than `N` characters")
	f.IntVar(&o.MinTokens, "min-answer-tokens", 0, "drop answers of fewer than `N` tokens")
	f.IntVar(&o.MaxTokens, "max-answer-tokens", 0, "drop answers of more than `N` tokens")
	f.StringSliceVar(&o.Unique, "unique", nil, "drop answers that have the same text in `COLUMN`,... as an earlier one, such as response")
	f.VisitAll(func(flag *pflag.Flag) {
		flags.AddFlag(flag)
		title := filters
		if slices.Contains([]string{"column-prefix", "columns", "columns-from", "extract", "types", "failed"}, flag.Name) {
			title = outputs
		}
		section(flags, title, flag.Name)
	})
}

func (o *outputFlags) open(cmd *cobra.Command) (*export.Output, error) {
	var forTables string
	o.tables.VisitAll(func(f *pflag.Flag) {
		if f.Changed && forTables == "" {
			forTables = f.Name
		}
	})
	out, err := o.Output(forTables)
	if err != nil {
		return nil, err
	}
	out.Stdout = cmd.OutOrStdout()
	out.Summary = func(text string) { cmd.PrintErrln(textfmt.Printable(text)) }
	return out, nil
}
