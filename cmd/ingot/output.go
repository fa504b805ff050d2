package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/textfmt"
)

type outputFlags struct {
	path, format    string
	ordered         bool
	prefix, failed  string
	keepFinish      []string
	match, notMatch []string
	minChars        int
	maxChars        int
	minTokens       int
	maxTokens       int
	unique          []string
	columnsFrom     string
	extract         string
	columns         []string
	types           string
	tables          *pflag.FlagSet // flags that apply only to tables
}

// Sections of a command's flags in its help.
const (
	outputs = "Output"
	filters = "Table Filter"
)

func (o *outputFlags) add(flags *pflag.FlagSet, what string) {
	flags.StringVarP(&o.path, "out", "o", "", "write "+what+" to `OUT`; - for stdout")
	flags.StringVar(&o.format, "output-format", "", "write OUT as `FORMAT`: "+formatNames()+" (default by its extension, else batch)")
	flags.BoolVar(&o.ordered, "ordered", false, "at the end, sort batch lines in the order of the input; tables always have this order")
	section(flags, outputs, "output-format", "ordered")

	o.tables = pflag.NewFlagSet("", pflag.ContinueOnError)
	f := o.tables
	f.SortFlags = false
	f.StringVar(&o.prefix, "column-prefix", "", "put `PREFIX` before the names of generated columns")
	f.StringVar(&o.columnsFrom, "columns-from", "",
		"make columns of the properties of answers: `json`, which needs answers that are JSON objects, or none (default none)")
	f.StringVar(&o.extract, "extract", "", "make a column of each named group of the regular expression `RE`, such as 'Score: (?P<score>\\d+)'")
	f.StringSliceVar(&o.columns, "columns", nil, "write only the columns `COLUMN`,..., in this order")
	f.StringVar(&o.types, "types", typesAuto, "`TYPES` of CSV columns in Parquet: auto (numbers where all cells are numbers) or text")
	f.StringVar(&o.failed, "failed", "", "write rows that failed to `FILE` instead of OUT, in the format and columns of the input")
	f.StringSliceVar(&o.keepFinish, "keep-finish", nil, "keep only answers with a finish reason in `REASON`,..., such as stop")
	f.StringArrayVar(&o.match, "match", nil, "keep only answers that the regular expression `RE` matches; may be repeated")
	f.StringArrayVar(&o.notMatch, "not-match", nil, "drop answers that the regular expression `RE` matches; may be repeated")
	f.IntVar(&o.minChars, "min-chars", 0, "drop answers of fewer than `N` characters")
	f.IntVar(&o.maxChars, "max-chars", 0, "drop answers of more than `N` characters")
	f.IntVar(&o.minTokens, "min-answer-tokens", 0, "drop answers of fewer than `N` tokens")
	f.IntVar(&o.maxTokens, "max-answer-tokens", 0, "drop answers of more than `N` tokens")
	f.StringSliceVar(&o.unique, "unique", nil, "drop answers that have the same text in `COLUMN`,... as an earlier one, such as response")
	f.VisitAll(func(flag *pflag.Flag) {
		flags.AddFlag(flag)
		title := filters
		if slices.Contains([]string{"column-prefix", "columns", "columns-from", "extract", "types", "failed"}, flag.Name) {
			title = outputs
		}
		section(flags, title, flag.Name)
	})
}

// Values of --types.
const (
	typesAuto = "auto"
	typesText = "text"
)

func formatNames() string {
	names := make([]string, len(export.Formats))
	for i, f := range export.Formats {
		names[i] = string(f)
	}
	return english.WordSeries(names, "or")
}

func (o *outputFlags) open(cmd *cobra.Command) (*export.Output, error) {
	if o.path == "" {
		return nil, usagef("-o OUT is missing")
	}
	out := &export.Output{
		Path: o.path, Format: export.FormatOf(o.path), Ordered: o.ordered, Failed: o.failed,
		Stdout: cmd.OutOrStdout(), Summary: func(text string) { cmd.PrintErrln(textfmt.Printable(text)) },
	}
	if o.format != "" {
		out.Format = export.Format(o.format)
		if !slices.Contains(export.Formats, out.Format) {
			return nil, usagef("--output-format: %q is not known: use %s", o.format, formatNames())
		}
	}
	if !out.Appends() && o.path == "/dev/stdout" { // also if stdout is a file, which a table would replace
		out.Path = stdio
	}
	if err := out.Format.CheckPath(o.path); err != nil {
		return nil, usagef("-o %s: %w", o.path, err)
	}
	if out.Format == export.Batch {
		var forTables string
		o.tables.VisitAll(func(f *pflag.Flag) {
			if f.Changed && forTables == "" {
				forTables = f.Name
			}
		})
		if forTables != "" {
			return nil, usagef("--%s is for tables: end the name of OUT in .csv, .parquet or .json, or give --output-format simple", forTables)
		}
		if o.ordered && !out.Regular() {
			return nil, usagef("--ordered needs a file as OUT, since stdout or a pipe cannot be sorted at the end")
		}
	}
	if o.failed != "" {
		name := filepath.Base(o.failed)
		if strings.HasPrefix(name, filepath.Base(o.path)+".") && strings.HasSuffix(name, ".answers.jsonl") {
			return nil, usagef("--failed: %s is the name of a file of answers: choose another file", o.failed)
		}
		if o.failed == stdio || o.failed == o.path || table.SameFile(o.failed, o.path) {
			return nil, usagef("--failed: give a file other than OUT")
		}
		if err := export.FormatOf(o.failed).CheckPath(o.failed); err != nil {
			return nil, usagef("--failed: %w", err)
		}
	}
	for i, name := range o.columns {
		if slices.Contains(o.columns[:i], name) {
			return nil, usagef("--columns: column %q is there twice: name it once", name)
		}
	}
	if o.types != typesAuto && o.types != typesText {
		return nil, usagef("--types: %q is not known: use %s or %s", o.types, typesAuto, typesText)
	}
	out.Table = export.Options{Prefix: o.prefix, Format: out.Format, Columns: o.columns, Texts: o.types == typesText}
	var err error
	if out.Table.Fields, err = o.fields(); err != nil {
		return nil, err
	}
	out.Table.Filter, err = o.filter()
	return out, err
}

// Values of --columns-from.
const (
	fromJSON = "json"
	fromNone = "none"
)

// fields returns which columns are made from the texts of answers.
func (o *outputFlags) fields() (export.Fields, error) {
	var f export.Fields
	switch o.columnsFrom {
	case "", fromNone:
	case fromJSON:
		f.JSON = true
	default:
		return f, usagef("--columns-from: %q is not known: use %s or %s", o.columnsFrom, fromJSON, fromNone)
	}
	if o.extract == "" {
		return f, nil
	}
	if f.JSON {
		return f, usagef("--extract and --columns-from json cannot be combined: give one")
	}
	var err error
	if f.Groups, err = compile("extract", o.extract); err != nil {
		return f, err
	}
	if len(f.Known()) == 0 {
		return f, usagef("--extract: the expression has no named group: write one as (?P<name>...)")
	}
	return f, nil
}

// fieldsOf makes columns of the properties of answers with a schema of objects, unless the flags
// say otherwise. Answers that are not JSON are failed ones in any case.
func (o *outputFlags) fieldsOf(schema string, out *export.Output) {
	f := &out.Table.Fields
	f.Schema = schema
	f.JSON = f.JSON || o.columnsFrom == "" && f.Groups == nil && export.HasObjects(schema)
}

// finishReasons are the values of the column finish_reason.
var finishReasons = []string{"stop", "length", "tool_calls"}

func (o *outputFlags) filter() (export.Filter, error) {
	f := export.Filter{
		FinishReasons: o.keepFinish, MinChars: o.minChars, MaxChars: o.maxChars, MinTokens: o.minTokens, MaxTokens: o.maxTokens, Unique: o.unique,
	}
	for _, reason := range o.keepFinish {
		if !slices.Contains(finishReasons, reason) {
			return f, usagef("--keep-finish: %q is not known: use %s%s", reason, english.WordSeries(finishReasons, "or"), textfmt.DidYouMean(reason, finishReasons))
		}
	}
	for _, n := range []struct {
		name     string
		min, max int
	}{{"chars", o.minChars, o.maxChars}, {"answer-tokens", o.minTokens, o.maxTokens}} {
		if n.min < 0 || n.max < 0 || n.max > 0 && n.max < n.min {
			return f, usagef("--min-%[1]s is %[2]d and --max-%[1]s is %[3]d: give no negative numbers, and a maximum that is not below the minimum",
				n.name, n.min, n.max)
		}
	}
	for _, list := range []struct {
		flag  string
		texts []string
		to    *[]*regexp.Regexp
	}{{"match", o.match, &f.Match}, {"not-match", o.notMatch, &f.NotMatch}} {
		for _, text := range list.texts {
			re, err := compile(list.flag, text)
			if err != nil {
				return f, err
			}
			*list.to = append(*list.to, re)
		}
	}
	return f, nil
}

// compile compiles the regular expression of a flag.
func compile(flag, text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, usagef("--%s: %q is not a regular expression: %s", flag, text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}

func answersFile(path string) *export.Output { return &export.Output{Path: path, Format: export.Batch} }

// checkColumns returns an error if a column of the input has the name of a column that a table
// adds, or if a flag names a column that the table cannot have. It is called before the first row
// is answered. in returns a reader of the input; it is nil if the table has no columns of an input.
func checkColumns(out *export.Output, in func() (table.Reader, error)) error {
	if out.Format == export.Batch {
		return nil
	}
	columns, err := export.Named, error(nil)
	fields := &out.Table.Fields
	if in != nil {
		if columns, err = table.ColumnsOf(in); err != nil {
			return err
		}
		err = export.CheckColumns(columns, fields.Known(), out.Table.Prefix)
	}
	for flag, names := range map[string][]string{"--unique": out.Table.Filter.Unique, "--columns": out.Table.Columns} {
		if err == nil && (!fields.JSON || len(fields.Known()) > 0) { // else the answers alone have the names
			err = export.CheckNames(flag, names, columns, fields.Known(), out.Table.Prefix)
		}
	}
	if err != nil {
		return &usageError{err}
	}
	return nil
}
