package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/files/table"
)

func newExport() *cobra.Command {
	var input, format string
	var to outputFlags
	cmd := &cobra.Command{
		Use:   "export ANSWERS... [--input ROWS] -o OUT",
		Short: "Make a table of answers: CSV, Parquet or flat JSON Lines",
		Long: `Export makes a table of files of answers: those of "ingot run" and "ingot results", or the OUT.answers.jsonl next
to a table. With --input ROWS, the file that was answered, each answer has the columns of its row; without it, the row's
custom_id. Records have the order of the rows. Several answers to one row have the order of the files ANSWERS.

` + columnsHelp + `

A row without an answer is left out. A row that failed has its error in the column error. With --failed it goes to
another file instead, which can be run again; with a filter it is dropped. A summary counts the dropped answers.`,
		Example: `  ingot export answers.jsonl --input prompts.jsonl -o answers.parquet
  ingot export answers.jsonl --input prompts.csv -o good.csv --keep-finish stop --unique response --failed again.csv
  ingot export answers.jsonl -o - --output-format simple | jq .response`,
		Args: atLeast("ANSWERS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := to.options()
			if err != nil {
				return err
			}
			for _, path := range append(args, input) {
				if path == out.path || sameFile(path, out.path) || sameFile(path, out.failed) {
					return usagef("%s is an input and would be overwritten: choose another file for OUT or --failed", path)
				}
			}
			if input == "" && out.failed != "" {
				return usagef("--failed needs --input ROWS, from which it takes the failed rows")
			}
			in, err := openRecords(input, format)
			if err != nil {
				return err
			}
			all, err := openAnswers(args)
			defer closeAnswers(all)
			if err != nil {
				return err
			}
			return out.write(cmd, all, in)
		},
	}
	to.add(cmd.Flags(), "the table")
	cmd.Flags().StringVar(&input, "input", "", "give each answer the columns of its row in `ROWS`, the file that was answered")
	cmd.Flags().StringVar(&format, "format", string(table.Auto), "`FORMAT` of ROWS: "+table.FormatNames())
	return cmd
}

// columnsHelp describes the columns of a table.
const columnsHelp = `Columns of a table, after those of the input: response, finish_reason, model, prompt_tokens, completion_tokens, error;
reasoning, if any answer has some; sample_index, if a row has several answers: each answer is one record.`

// openRecords returns a function that opens a reader of a file's records. It returns nil if path is empty.
func openRecords(path, format string) (func() (table.Reader, error), error) {
	f, err := table.ParseFormat(format)
	if err != nil {
		return nil, usagef("--format: %w", err)
	}
	if path == "" {
		return nil, nil
	}
	in, err := table.Open([]string{path}, table.Options{Format: f})
	if err != nil {
		return nil, err
	}
	return in.Records, nil
}
