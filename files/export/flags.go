package export

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/textfmt"
)

// Flags has the values of the flags that describe an output. Its errors name the flag.
type Flags struct {
	Path    string
	Format  string // empty for the format that the extension of Path selects
	Ordered bool   // of batch lines

	// The other flags are for tables.
	Prefix               string // of generated columns
	Columns              []string
	Types                string // TypesAuto or TypesText
	ColumnsFrom          string // FromJSON or FromNone; empty for none unless UseSchema finds objects
	Extract              string // a regular expression whose named groups become columns
	Failed               string // path of the rows that failed
	KeepFinish           []string
	Match, NotMatch      []string // regular expressions
	MinChars, MaxChars   int
	MinTokens, MaxTokens int
	Unique               []string
}

// Values of Flags.Types.
const (
	TypesAuto = "auto"
	TypesText = "text"
)

// Values of Flags.ColumnsFrom.
const (
	FromJSON = "json"
	FromNone = "none"
)

// FinishReasons are the values of the column finish_reason.
var FinishReasons = []string{"stop", "length", "tool_calls"}

// FlagError means that a flag's value is wrong, or that it cannot be used with the given files. It
// is found before anything is answered.
type FlagError struct{ error }

// Unwrap returns the reason.
func (e *FlagError) Unwrap() error { return e.error }

func flagErrorf(format string, args ...any) error { return &FlagError{fmt.Errorf(format, args...)} }

// FormatNames lists the formats for a sentence.
func FormatNames() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return english.WordSeries(names, "or")
}

// Output returns the output that the flags describe. forTables is the name of a given flag that is
// only for tables; empty if none is given.
func (f *Flags) Output(forTables string) (*Output, error) {
	if f.Path == "" {
		return nil, flagErrorf("-o OUT is missing")
	}
	out := &Output{Path: f.Path, Format: FormatOf(f.Path), Ordered: f.Ordered, Failed: f.Failed}
	if f.Format != "" {
		out.Format = Format(f.Format)
		if !slices.Contains(Formats, out.Format) {
			return nil, flagErrorf("--output-format: %q is not known: use %s", f.Format, FormatNames())
		}
	}
	if !out.Appends() && f.Path == "/dev/stdout" { // also if stdout is a file, which a table would replace
		out.Path = stdout
	}
	if err := out.Format.CheckPath(f.Path); err != nil {
		return nil, flagErrorf("-o %s: %w", f.Path, err)
	}
	switch {
	case out.Format != Batch:
	case forTables != "":
		return nil, flagErrorf("--%s is for tables: end the name of OUT in .csv, .parquet or .json, or give --output-format simple", forTables)
	case f.Ordered && !out.Regular():
		return nil, flagErrorf("--ordered needs a file as OUT, since stdout or a pipe cannot be sorted at the end")
	}
	if err := f.checkFailed(); err != nil {
		return nil, &FlagError{err}
	}
	var err error
	if out.Table, err = f.table(out.Format); err != nil {
		return nil, &FlagError{err}
	}
	return out, nil
}

func (f *Flags) checkFailed() error {
	if f.Failed == "" {
		return nil
	}
	name := filepath.Base(f.Failed)
	if strings.HasPrefix(name, filepath.Base(f.Path)+".") && strings.HasSuffix(name, answersExtension) {
		return fmt.Errorf("--failed: %s is the name of a file of answers: choose another file", f.Failed)
	}
	if f.Failed == stdout || f.Failed == f.Path || table.SameFile(f.Failed, f.Path) {
		return errors.New("--failed: give a file other than OUT")
	}
	if err := FormatOf(f.Failed).CheckPath(f.Failed); err != nil {
		return fmt.Errorf("--failed: %w", err)
	}
	return nil
}

func (f *Flags) table(format Format) (o Options, err error) {
	for i, name := range f.Columns {
		if slices.Contains(f.Columns[:i], name) {
			return o, fmt.Errorf("--columns: column %q is there twice: name it once", name)
		}
	}
	if f.Types != TypesAuto && f.Types != TypesText {
		return o, fmt.Errorf("--types: %q is not known: use %s or %s", f.Types, TypesAuto, TypesText)
	}
	o = Options{Prefix: f.Prefix, Format: format, Columns: f.Columns, Texts: f.Types == TypesText}
	if o.Fields, err = f.fields(); err == nil {
		o.Filter, err = f.filter()
	}
	return o, err
}

// fields returns which columns are made from the texts of answers.
func (f *Flags) fields() (fields Fields, err error) {
	switch f.ColumnsFrom {
	case "", FromNone:
	case FromJSON:
		fields.JSON = true
	default:
		return fields, fmt.Errorf("--columns-from: %q is not known: use %s or %s", f.ColumnsFrom, FromJSON, FromNone)
	}
	if f.Extract == "" {
		return fields, nil
	}
	if fields.JSON {
		return fields, errors.New("--extract and --columns-from json cannot be combined: give one")
	}
	if fields.Groups, err = compile("extract", f.Extract); err != nil {
		return fields, err
	}
	if len(fields.Known()) == 0 {
		return fields, errors.New("--extract: the expression has no named group: write one as (?P<name>...)")
	}
	return fields, nil
}

// UseSchema makes columns of the properties of answers with a schema of objects, unless the flags
// say otherwise. Answers that are not JSON are failed ones in any case.
func (f *Flags) UseSchema(schema string, out *Output) {
	fields := &out.Table.Fields
	fields.Schema = schema
	fields.JSON = fields.JSON || f.ColumnsFrom == "" && fields.Groups == nil && HasObjects(schema)
}

func (f *Flags) filter() (Filter, error) {
	filter := Filter{
		FinishReasons: f.KeepFinish, MinChars: f.MinChars, MaxChars: f.MaxChars, MinTokens: f.MinTokens, MaxTokens: f.MaxTokens, Unique: f.Unique,
	}
	for _, reason := range f.KeepFinish {
		if !slices.Contains(FinishReasons, reason) {
			return filter, fmt.Errorf("--keep-finish: %q is not known: use %s%s", reason, english.WordSeries(FinishReasons, "or"), textfmt.DidYouMean(reason, FinishReasons))
		}
	}
	for _, n := range []struct {
		name     string
		min, max int
	}{{"chars", f.MinChars, f.MaxChars}, {"answer-tokens", f.MinTokens, f.MaxTokens}} {
		if n.min < 0 || n.max < 0 || n.max > 0 && n.max < n.min {
			return filter, fmt.Errorf("--min-%[1]s is %[2]d and --max-%[1]s is %[3]d: give no negative numbers, and a maximum that is not below the minimum",
				n.name, n.min, n.max)
		}
	}
	var err error
	if filter.Match, err = compileAll("match", f.Match); err == nil {
		filter.NotMatch, err = compileAll("not-match", f.NotMatch)
	}
	return filter, err
}

func compileAll(flag string, texts []string) (all []*regexp.Regexp, err error) {
	all = make([]*regexp.Regexp, len(texts))
	for i, text := range texts {
		if all[i], err = compile(flag, text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// compile compiles the regular expression of a flag.
func compile(flag, text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %q is not a regular expression: %s", flag, text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}
