package export

import "github.com/ingot-run/ingot/files/table"

// CheckInputs returns a *FlagError if the output, or the file of failed rows, is one of the inputs.
func (o *Output) CheckInputs(paths []string) error {
	for _, path := range paths {
		if path == o.Path && path != stdout || table.SameFile(path, o.Path) || table.SameFile(path, o.Failed) {
			return flagErrorf("%s is an input and would be overwritten: choose another file for OUT or --failed", path)
		}
	}
	return nil
}

// CheckColumns returns a *FlagError if a column of the input has the name of a column that a table
// adds, or if a flag names a column that the table cannot have. It is called before the first row
// is answered. in returns a reader of the input; it is nil if the table has no columns of an input.
func (o *Output) CheckColumns(in func() (table.Reader, error)) error {
	if o.Format == Batch {
		return nil
	}
	columns, err := Named, error(nil)
	fields := &o.Table.Fields
	if in != nil {
		if columns, err = table.ColumnsOf(in); err != nil {
			return err
		}
		err = CheckColumns(columns, fields.Known(), o.Table.Prefix)
	}
	for flag, names := range map[string][]string{"--unique": o.Table.Filter.Unique, "--columns": o.Table.Columns} {
		if err == nil && (!fields.JSON || len(fields.Known()) > 0) { // else the answers alone have the names
			err = CheckNames(flag, names, columns, fields.Known(), o.Table.Prefix)
		}
	}
	if err != nil {
		return &FlagError{err}
	}
	return nil
}
