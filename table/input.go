package table

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Stdin is the path that means stdin.
const Stdin = "-"

// Options are the settings of an Input.
type Options struct {
	Format Format    // Auto if empty
	Stdin  io.Reader // is read for the path Stdin
}

// Input is one or several files that are read as one table.
type Input struct {
	paths   []string
	options Options
	once    string // the file that can be read only once, such as a pipe; empty if there is none
	start   int64  // offset of stdin, if it is a regular file
	read    bool   // Records was called
}

// Open finds the files of an input. A path can be a pattern such as data/*.csv.gz, or Stdin. Files are read in the order of the paths, those of
// a pattern in the order of their names.
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

// check finds out whether a file can be read more than once.
func (in *Input) check(path string) error {
	if path == Stdin {
		f, ok := in.options.Stdin.(*os.File)
		if ok && isRegular(f) {
			var err error
			if in.start, err = f.Seek(0, io.SeekCurrent); err == nil {
				return nil
			}
		}
		in.once = "stdin"
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
	case !info.Mode().IsRegular():
		in.once = path
	}
	return nil
}

func isRegular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// expand returns the files of a path.
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
		return nil, fmt.Errorf("open %s: no file has such a name", path)
	}
	return files, nil
}

// Paths returns the files.
func (in *Input) Paths() []string { return in.paths }

// Seekable reports whether the input can be read again.
func (in *Input) Seekable() bool { return in.once == "" }

// Records begins to read the table from its start. The numbers of records go on from one file to the next.
func (in *Input) Records() (Reader, error) {
	if in.read && !in.Seekable() {
		return nil, fmt.Errorf("%s cannot be read a second time: write it to a file first", in.once)
	}
	in.read = true
	r := &filesReader{in: in}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// Content begins to read the content of an input of one file, decompressed. The error is errors.ErrUnsupported for several files and for
// what can be read only once.
func (in *Input) Content() (io.ReadCloser, error) {
	if len(in.paths) > 1 || !in.Seekable() {
		return nil, errors.ErrUnsupported
	}
	f, err := in.openFile(in.paths[0])
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (in *Input) openFile(path string) (*file, error) {
	if path == Stdin && in.Seekable() {
		if _, err := in.options.Stdin.(io.Seeker).Seek(in.start, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return openFile(path, in.options.Stdin)
}

func (in *Input) open(path string) (Reader, error) {
	f, err := in.openFile(path)
	if err != nil {
		return nil, err
	}
	start, err := f.start()
	if err == nil {
		var r Reader
		if r, err = detect(in.options.Format, path, start).open(f); err == nil {
			return r, nil
		}
	}
	return nil, errors.Join(err, f.Close())
}

// filesReader reads files one after another.
type filesReader struct {
	in      *Input
	next    int    // file
	current Reader // nil after the last file
	columns []Column
	before  int // number of the last record of the files before
	number  int // of the last record
}

// open opens the next file, which must have the columns of the first.
func (r *filesReader) open() error {
	path := r.in.paths[r.next]
	current, err := r.in.open(path)
	if err != nil {
		return err
	}
	if r.next == 0 {
		r.columns = current.Columns()
	} else if !slices.Equal(names(r.columns), names(current.Columns())) {
		return errors.Join(fmt.Errorf("%s has other columns (%s) than %s (%s): read them separately", path, quoteNames(current.Columns()),
			r.in.paths[0], quoteNames(r.columns)), current.Close())
	}
	r.current, r.before = current, r.number
	r.next++
	return nil
}

// Columns implements Reader.
func (r *filesReader) Columns() []Column { return r.columns }

// Next implements Reader.
func (r *filesReader) Next() (Record, error) {
	for r.current != nil {
		record, err := r.current.Next()
		var damaged *RecordError
		switch {
		case errors.As(err, &damaged):
			damaged.Number += r.before
			r.number = damaged.Number
			return Record{}, damaged
		case err == nil:
			record.Number += r.before
			r.number = record.Number
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

// Close implements Reader.
func (r *filesReader) Close() error {
	if r.current == nil {
		return nil
	}
	err := r.current.Close()
	r.current = nil
	return err
}

// names returns the names of columns in order of name.
func names(columns []Column) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.Name
	}
	slices.Sort(list)
	return list
}

// quoteNames lists columns for messages.
func quoteNames(columns []Column) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = fmt.Sprintf("%q", c.Name)
	}
	return strings.Join(list, ", ")
}
