package export

import "github.com/ingot-run/ingot/files/table"

// CheckInput returns a *FlagError if the answers of a number of models to an input cannot be
// written to the output. It is called before the first row is answered.
func (o *Output) CheckInput(in *table.Input, models int) error {
	if err := o.CheckPaths(in.Paths()); err != nil {
		return err
	}
	if models == 1 && o.Appends() {
		return nil
	}
	if !in.Seekable() {
		return flagErrorf("IN is read again for a table, for a compressed OUT and for each further model, but a pipe can be read only once: write IN to a file first")
	}
	return o.CheckColumns(in.Records)
}

// CheckPaths returns a *FlagError if the output, or the file of failed rows, is one of the inputs.
func (o *Output) CheckPaths(paths []string) error {
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
