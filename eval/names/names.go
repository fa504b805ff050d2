// Package names checks the names of baselines and of the entries of a schedule.
package names

import (
	"fmt"
	"regexp"
)

// form is the pattern of names. They become parts of file names, URLs, tables, and the names of runs, batches and keys.
var form = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Check returns an error if a name is not allowed. kind is what the name is for, such as "baseline"; the error begins with it.
func Check(kind, name string) error {
	if form.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%s %q: a name has up to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit", kind, name)
}
