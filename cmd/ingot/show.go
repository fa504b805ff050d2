package main

import (
	"bufio"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/files/table"
)

type showCommand struct {
	input string
	from  inputFlags
}

func newShow() *cobra.Command {
	var c showCommand
	cmd := &cobra.Command{
		Use:   "show ANSWERS [--input ROWS]",
		Short: "Print answers as text, with their figures",
		Args:  arguments("ANSWERS"),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&c.input, "input", "", "also print the questions of `ROWS`, the file that was answered")
	c.from.add(cmd.Flags())
	cmd.Flags().Lookup("format").Usage = "`FORMAT` of ROWS: " + table.FormatNames()
	cmd.Flags().Lookup("limit").Usage = "print at most `N` answers"
	cmd.Flags().Lookup("dry-run").Hidden = true // the same as --limit
	return cmd
}

func (c *showCommand) run(cmd *cobra.Command, path string) (err error) {
	out := path
	path = export.AnswersOf(out)
	text := bufio.NewWriter(cmd.OutOrStdout())
	defer func() { err = errors.Join(err, text.Flush()) }()
	to, _, err := c.from.options()
	if err != nil {
		return err
	}
	w := export.TextWriter{Out: text, Limit: to.Select.Limit, Ordered: path != out, Selected: to.Select != table.Selection{}}
	if c.input != "" && (c.input == path || table.SameFile(c.input, path)) {
		return usagef("%s is both ANSWERS and ROWS: give two different files", c.input)
	}
	if path != out {
		cmd.PrintErrf("These are the answers from which %s was made, also those that its filters dropped.%s\n", out, c.questionsHint())
	}
	answers, err := table.Open([]string{path}, table.Options{Stdin: cmd.InOrStdin()})
	if err != nil {
		return err
	}
	if c.input == "" {
		return w.Answers(answers)
	}
	var in *prompt.Input
	err = w.Rows(cmd.Context(), answers, func() (*rows.Reader, error) {
		if in, err = c.from.open(cmd, []string{c.input}); err != nil {
			return nil, err
		}
		return rows.NewReader(in, rows.Options{Format: in.Format, IgnoreUnknown: true, RecordSum: in.RecordSum}), nil
	})
	var unknown *prompt.UseError
	if errors.As(err, &unknown) { // the prompts are not known, but the columns are
		return c.records(&w, answers)
	}
	if in == nil {
		return err
	}
	return errors.Join(in.Hint(err), in.Close())
}

// questionsHint says how to see the questions.
func (c *showCommand) questionsHint() string {
	if c.input != "" {
		return ""
	}
	return " To see the questions too, give the input with --input."
}

// records prints the columns of the rows instead of their prompts.
func (c *showCommand) records(w *export.TextWriter, answers *table.Input) error {
	to, _, err := c.from.options()
	if err != nil {
		return err
	}
	in, err := table.Open([]string{c.input}, to)
	if err != nil {
		return err
	}
	return w.Records(answers, in.Records)
}
