package prompt

import (
	"fmt"

	"github.com/ingot-run/ingot/internal/textfmt"
)

// AdviseNoTemplate says how a model without a chat template can answer rows that are chats.
// templates reports whether --template or --system make messages of the rows.
func AdviseNoTemplate(templates bool) string {
	const or = ", or a model with a chat template"
	if templates {
		return "give --prompt alone, with --shape completion, so that the model continues each prompt as text" + or
	}
	return "give --shape completion, so that the model continues each prompt as text (rows with \"messages\" need \"prompt\" instead)" + or
}

// WarnOfNoTemplate is the warning about n rows that need a chat template, which the model does not
// have.
func WarnOfNoTemplate(n int, templates bool) string {
	return fmt.Sprintf("%s cannot be answered, since the model has no chat template: %s", textfmt.Count(n, "row"), AdviseNoTemplate(templates))
}

// WarnOfContinued is the warning about n rows whose "prompt" a model for chats continues.
func WarnOfContinued(n int) string {
	return textfmt.Count(n, "row") + " with \"prompt\": the model has a chat template, but continues such rows as text. " +
		"To send them as chats, give --shape prompt; to keep texts without this warning, --shape completion"
}
