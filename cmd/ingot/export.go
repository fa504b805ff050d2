package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/table"
)

type exportCommand struct {
	to   outputFlags
	rows recordFlags
}

func newExport() *cobra.Command {
	var c exportCommand
	cmd := &cobra.Command{
		Use:   "export ANSWERS... [--input ROWS] -o OUT",
		Short: "Make a table of answers: CSV, Parquet or flat JSON Lines",
		Args:  atLeast("ANSWERS"),
		RunE:  c.run,
	}
	c.to.add(cmd.Flags(), "the table")
	c.rows.add(cmd.Flags(), "give each answer the columns of its row in `ROWS`, the file that was answered")
	return cmd
}

func (c *exportCommand) run(cmd *cobra.Command, args []string) error {
	out, err := c.to.open(cmd)
	if err != nil {
		return err
	}
	for i, path := range args {
		args[i] = export.AnswersOf(path)
	}
	if err := out.CheckPaths(append(args, c.rows.path)); err != nil {
		return err
	}
	in, err := c.rows.open(out)
	if err != nil {
		return err
	}
	if err := export.CheckFailed(out.Failed); err != nil {
		return err
	}
	return out.Write(cmd.Context(), args, in)
}

type recordFlags struct {
	path string
	file table.Flags
}

func (f *recordFlags) add(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&f.path, "input", "", usage)
	flags.StringVar(&f.file.Format, "format", string(table.Auto), "`FORMAT` of ROWS: "+table.FormatNames())
	addEncoding(flags, &f.file, "ROWS")
}

// open returns a function that opens a reader of the rows for a table. It returns nil if no file is
// named.
func (f *recordFlags) open(out *export.Output) (func() (table.Reader, error), error) {
	if out.Failed != "" && f.path == "" {
		return nil, usagef("--failed needs --input ROWS, from which it takes the failed rows")
	}
	o, err := f.file.Options(func(string) bool { return false })
	if err != nil {
		return nil, &usageError{err}
	}
	if f.path == "" {
		return nil, nil
	}
	in, err := table.Open([]string{f.path}, o)
	if err != nil {
		return nil, err
	}
	return in.Records, nil
}
