package main

import (
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/prompt"
)

const answerForm = "Form of Answers"

// addForm adds the flags that give the answers of all rows a form.
func addForm(flags *pflag.FlagSet, f *prompt.FormFlags) {
	flags.StringVar(&f.Schema, "schema", "",
		"answers are JSON of a schema: `FILE` with a JSON Schema, or a list such as 'label:positive|negative, score:number, reason'")
	flags.StringVar(&f.Choices, "choices", "", "answers are one of several texts: `A,B,...`, or a file with one on each line")
	flags.StringVar(&f.Regex, "regex", "", "answers match the regular expression `RE` from beginning to end")
	flags.StringVar(&f.Grammar, "grammar", "", "answers are of the grammar in `FILE`, in the format of Lark or GBNF")
	section(flags, answerForm, "schema", "choices", "regex", "grammar")
}
