package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"
)

// Stdin is the path that means stdin.
const Stdin = "-"

const stdinName = "stdin"

// Options are the settings of an Input.
type Options struct {
	Format   Format    // Auto if empty
	Encoding string    // encoding of texts, which CheckEncoding accepts; UTF-8 if empty
	Comma    rune      // separates the columns of CSV; a comma if 0
	Stdin    io.Reader // read for the path Stdin
	Select   Selection
}

// Input is one or more files that are read as one table.
type Input struct {
	paths   []string
	options Options
	once    string   // name of the file that can be read only once, such as a pipe; empty if there is none
	start   int64    // offset at which stdin begins, if it is a regular file
	read    bool     // Records was called
	copied  *os.File // copy of the file that can be read only once; nil without a copy
	sample  *sample  // the records that Options.Select.Sample selects; nil before they are drawn
}

// Open finds the files of an input. A path can be a pattern such as data/*.csv.gz, or Stdin. Files
// are read in the order of the paths; the files of a pattern are read in alphabetical order.
func Open(paths []string, o Options) (*Input, error) {
	in := &Input{options: o}
	for _, path := range paths {
		files, err := expand(path)
		if err != nil {
			return nil, err
		}
		in.paths = append(in.paths, files...)
	}
	for _, path := range in.paths {
		if err := in.check(path); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// check returns an error if a file does not exist or is a folder. It sets in.once if the file can
// be read only once.
func (in *Input) check(path string) error {
	if path == Stdin {
		f, ok := in.options.Stdin.(*os.File)
		if ok && isRegular(f) {
			var err error
			if in.start, err = f.Seek(0, io.SeekCurrent); err == nil {
				return nil
			}
		}
		in.once = stdinName
		if len(in.paths) > 1 {
			return errors.New("stdin (-) cannot be read together with files")
		}
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("open %s: %w", path, errors.Unwrap(err))
	case info.IsDir():
		return fmt.Errorf("open %s: it is a folder: give its files, such as '%s/*.csv'", path, strings.TrimRight(path, "/"))
	case info.Mode()&os.ModeDevice != 0:
		in.once = path
		return checkDevice(path)
	case !info.Mode().IsRegular():
		in.once = path
	}
	return nil
}

// checkDevice refuses devices that may never end, such as /dev/zero.
func checkDevice(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was read
	if term.IsTerminal(int(f.Fd())) || SameFile(path, os.DevNull) {
		return nil
	}
	return fmt.Errorf("open %s: it is a device: give a file or a pipe", path)
}

// SameFile reports whether two paths lead to the same file, or will when it exists. Stdin and
// stdout, which - means, are no files, nor is the empty path.
func SameFile(a, b string) bool {
	if a == Stdin || b == Stdin || a == "" || b == "" {
		return false
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errors.Is(errA, fs.ErrNotExist) && errors.Is(errB, fs.ErrNotExist) && filepath.Base(a) == filepath.Base(b) {
		infoA, errA = os.Stat(filepath.Dir(a))
		infoB, errB = os.Stat(filepath.Dir(b))
	}
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

func isRegular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

func expand(path string) ([]string, error) {
	if path == Stdin || !strings.ContainsAny(path, "*?[") {
		return []string{path}, nil
	}
	if _, err := os.Lstat(path); err == nil {
		return []string{path}, nil
	}
	files, err := filepath.Glob(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("open %s: no file matches the pattern", path)
	}
	return files, nil
}

// Paths returns the paths of the input's files.
func (in *Input) Paths() []string { return in.paths }

// Name returns a name of the input for messages: its first file, and the number of other files.
func (in *Input) Name() string {
	switch {
	case len(in.paths) > 1:
		return fmt.Sprintf("%s and %d more", in.paths[0], len(in.paths)-1)
	case in.paths[0] == Stdin:
		return stdinName
	}
	return in.paths[0]
}

// Seekable reports whether the input can be read more than once.
func (in *Input) Seekable() bool { return in.once == "" || in.copied != nil }

// Copy copies a file that can be read only once to a temporary file, so that it can be read again.
// It must be called before Records.
func (in *Input) Copy() error {
	if in.Seekable() {
		return nil
	}
	from := in.options.Stdin
	if in.once != stdinName {
		f, err := os.Open(in.once)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // the file was only read
		from = f
	}
	temp, err := temporary()
	if err != nil {
		return err
	}
	if _, err := io.Copy(temp, from); err != nil {
		return errors.Join(fmt.Errorf("copy %s to a temporary file: %w", in.once, err), temp.Close())
	}
	in.copied = temp
	return nil
}

// temporary creates a file without a name, which the system deletes when it is closed.
func temporary() (*os.File, error) {
	temp, err := os.CreateTemp("", "ingot-table-*")
	if err == nil {
		os.Remove(temp.Name()) //nolint:errcheck // the open file can still be used
	}
	return temp, err
}

// Close removes the copy.
func (in *Input) Close() error {
	if in.copied == nil {
		return nil
	}
	err := in.copied.Close()
	in.copied = nil
	return err
}

// Records returns a reader of the selected records from the start. Records are numbered across
// files, and the selection does not change their numbers.
func (in *Input) Records() (Reader, error) {
	s := in.options.Select
	if s.Sample > 0 && in.sample == nil {
		if err := in.Copy(); err != nil {
			return nil, err
		}
		all, err := in.selected(Selection{Where: s.Where, Skip: s.Skip})
		if err != nil {
			return nil, err
		}
		in.sample, err = draw(all, s.Seed, s.Sample)
		if err := errors.Join(err, all.Close()); err != nil {
			return nil, err
		}
	}
	return in.selected(s)
}

// selected returns a reader of the records that s selects. If s has a sample, in.sample must have
// been drawn.
func (in *Input) selected(s Selection) (Reader, error) {
	if in.read && !in.Seekable() {
		return nil, fmt.Errorf("%s cannot be read a second time: write it to a file first", in.once)
	}
	in.read = true
	files := &filesReader{in: in}
	if err := files.open(); err != nil {
		return nil, err
	}
	r := &selected{Reader: files, skip: s.Skip, left: -1}
	if s.Limit > 0 {
		r.left = s.Limit
	}
	if s.Sample > 0 {
		r.sample = in.sample
	}
	if s.Where == "" {
		return r, nil
	}
	columns, err := in.knownColumns(files)
	if err == nil {
		r.where, err = newCondition(s.Where, columns)
	}
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return r, nil
}

// sampled is the number of records from which knownColumns takes the columns of a file without a
// header, such as JSON Lines.
const sampled = 100

// knownColumns returns the names of the columns. Without a header, it takes them from the first
// records. It returns nil if the columns cannot be known before reading, as for stdin.
func (in *Input) knownColumns(files *filesReader) ([]string, error) {
	if files.columns != nil {
		return Names(files.columns), nil
	}
	if !in.Seekable() {
		return nil, nil
	}
	first, err := in.selected(Selection{Limit: sampled})
	if err != nil {
		return nil, err
	}
	defer first.Close() //nolint:errcheck // the file was only read
	list := []string{}
	for {
		r, err := first.Next()
		var one *RecordError
		switch {
		case errors.Is(err, io.EOF):
			if len(list) == 0 {
				list = nil
			}
			return list, nil
		case err != nil && !errors.As(err, &one):
			return nil, err
		}
		for _, f := range r.Fields {
			if !slices.Contains(list, f.Name) {
				list = append(list, f.Name)
			}
		}
	}
}

// Content returns a reader of the decompressed content of an input of one file. The error is
// errors.ErrUnsupported if there are several files, a selection or another encoding.
func (in *Input) Content() (io.ReadCloser, error) {
	if len(in.paths) > 1 || in.options.Select != (Selection{}) || in.options.Encoding != "" {
		return nil, errors.ErrUnsupported
	}
	f, err := in.openFile(in.paths[0])
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (in *Input) openFile(path string) (*file, error) {
	if in.copied != nil && (path == in.once || path == Stdin) {
		f := &file{name: in.once, in: bufio.NewReaderSize(io.NewSectionReader(in.copied, 0, math.MaxInt64), bufferSize)}
		err := f.decompress(in.options.Encoding)
		return f, err
	}
	if path == Stdin && in.Seekable() {
		if _, err := in.options.Stdin.(io.Seeker).Seek(in.start, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return openFile(path, in.options.Stdin, in.options.Encoding)
}

func (in *Input) open(path string) (Reader, error) {
	f, err := in.openFile(path)
	if err != nil {
		return nil, err
	}
	f.comma = in.options.Comma
	start, err := f.start()
	if err == nil {
		format := detect(in.options.Format, path, start)
		if format.name != Parquet {
			err = f.checkIsText()
		}
		if in.options.Comma != 0 && format.name != CSV {
			err = errors.Join(err, fmt.Errorf("read %s: --delimiter is for CSV, but this file is read as %s: give --format csv as well", f.name, format.name))
		}
		var r Reader
		if err == nil {
			r, err = format.open(f)
		}
		if err == nil {
			return r, nil
		}
	}
	return nil, errors.Join(err, f.Close())
}

// OpenFailed opens a file of failed rows, or another table. The reader has the column ReasonColumn.
func OpenFailed(path string) (Reader, error) { return (&Input{}).open(path) }

type filesReader struct {
	in      *Input
	next    int
	current Reader // nil after the last file
	columns []Column
	before  int // number of the last record in the earlier files
	number  int // number of the last record
}

// open opens the next file. It must have the same columns as the first file.
func (r *filesReader) open() error {
	path := r.in.paths[r.next]
	current, err := r.in.open(path)
	if err != nil {
		return err
	}
	switch {
	case r.next == 0:
		r.columns = slices.DeleteFunc(slices.Clone(current.Columns()), func(c Column) bool { return c.Name == ReasonColumn })
	case (r.columns == nil) != (current.Columns() == nil):
		err = fmt.Errorf("%s and %s cannot be read together, since in only one of them all records have the same columns, as in CSV", r.in.paths[0], path)
	case !slices.Equal(sortedNames(r.columns), sortedNames(current.Columns())):
		err = fmt.Errorf("%s has other columns (%s) than %s (%s)", path, Quoted(Names(current.Columns())), r.in.paths[0], Quoted(Names(r.columns)))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w: give them in separate commands", err), current.Close())
	}
	r.current, r.before = current, r.number
	r.next++
	return nil
}

func (r *filesReader) Columns() []Column { return r.columns }

func (r *filesReader) Next() (Record, error) {
	for r.current != nil {
		record, err := r.current.Next()
		var damaged *RecordError
		switch {
		case errors.As(err, &damaged):
			damaged.Number += r.before
			r.number = damaged.Number
			damaged.Fields, _ = withoutReason(damaged.Fields)
			return Record{}, damaged
		case err == nil:
			record.Number += r.before
			r.number = record.Number
			var reason string
			if record.Fields, reason = withoutReason(record.Fields); strings.HasPrefix(reason, UnusableReason) {
				return Record{}, &RecordError{Number: record.Number, Line: record.Line, Fields: record.Fields, Err: unusedBefore(reason)}
			}
			return record, nil
		case !errors.Is(err, io.EOF):
			return Record{}, err
		}
		if err := r.Close(); err != nil {
			return Record{}, err
		}
		if r.next < len(r.in.paths) {
			if err := r.open(); err != nil {
				return Record{}, err
			}
		}
	}
	return Record{}, io.EOF
}

// unusedBefore returns the error of a record that could not be used for the given reason, which may
// have the text of this error itself.
func unusedBefore(reason string) error {
	const text = "the record could not be used before: correct it and remove its " + ReasonColumn + " ("
	if _, before, ok := strings.Cut(reason, text); ok {
		reason = strings.TrimSuffix(before, ")")
	}
	return errors.New(text + reason + ")")
}

func sortedNames(columns []Column) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(Names(columns))), func(name string) bool { return name == ReasonColumn })
}

// withoutReason removes the field ReasonColumn, and returns its text.
func withoutReason(fields []Field) (others []Field, reason string) {
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == ReasonColumn })
	if i < 0 {
		return fields, ""
	}
	reason, _ = textOf(fields[i].Value) // a value that is not a text is not a reason
	return slices.Delete(fields, i, i+1), reason
}

func (r *filesReader) Close() error {
	if r.current == nil {
		return nil
	}
	err := r.current.Close()
	r.current = nil
	return err
}
