package rows

import (
	"crypto/sha256"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/openai"
)

// maxForms is the maximum number of forms of answers whose check is remembered.
const maxForms = 4096

// forms checks the forms that rows give their answers. The rows of a file mostly have the same few
// forms, so each is checked once.
type forms struct {
	checked map[[sha256.Size]byte]error
}

// check returns an error if an answer cannot be given the form.
func (f *forms) check(c *generation.Constraint) error {
	text, _ := openai.Marshal(c) // texts can always be encoded
	key := sha256.Sum256(text)
	err, known := f.checked[key]
	if known {
		return err
	}
	if f.checked == nil || len(f.checked) == maxForms {
		f.checked = map[[sha256.Size]byte]error{}
	}
	err = grammar.Check(c)
	f.checked[key] = err
	return err
}
