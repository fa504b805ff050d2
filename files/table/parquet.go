package table

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/parquet-go/parquet-go"
)

// parquetReader reads a Parquet file row by row. It holds a page of each column in memory.
type parquetReader struct {
	file    *file
	columns []Column
	nodes   []*node // one for each column
	leaves  int     // number of leaf columns in the file, including those of omitted columns
	groups  []parquet.RowGroup
	rows    parquet.Rows // rows of the current row group; nil between groups
	buf     []parquet.Row
	next    int // index in buf of the next row
	number  int
	values  rowValues // values of the last row
	fields  []Field
}

const batchRows = 64

// indexColumn matches the names of columns in which pandas stores the index of its rows. These
// columns are omitted.
var indexColumn = regexp.MustCompile(`^__index_level_\d+__$`)

// errDamaged means that the library panicked on a file.
var errDamaged = errors.New("the Parquet file is damaged")

// guard turns a panic of the library on a damaged file into an error of the function that defers
// guard.
func guard(err *error) { //nolint:gocritic // sets the error of the function that defers guard
	if p := recover(); p != nil { //nolint:revive // guard is deferred
		*err = fmt.Errorf("%w: %.200s", errDamaged, fmt.Sprint(p))
	}
}

func newParquet(f *file) (Reader, error) {
	p, err := openParquet(f)
	if err != nil {
		return nil, f.failed(err)
	}
	return p, nil
}

func openParquet(f *file) (p *parquetReader, err error) {
	defer guard(&err)
	plain, size, err := f.random()
	if err != nil {
		return nil, err
	}
	if err := checkFooter(plain, size); err != nil {
		return nil, err
	}
	in, err := parquet.OpenFile(plain, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	p = &parquetReader{file: f, buf: make([]parquet.Row, 0, batchRows)}
	for _, g := range in.RowGroups() {
		if g.NumRows() > 0 {
			p.groups = append(p.groups, g)
		}
	}
	named := map[string]bool{}
	leaves := newLeafColumns(in.Metadata().Schema)
	for _, c := range in.Root().Columns() {
		n, err := newNode(c, node{}, leaves)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.Name(), err)
		}
		if indexColumn.MatchString(c.Name()) {
			continue
		}
		if named[c.Name()] {
			return nil, fmt.Errorf("the file has the column %q twice: rename one of them", c.Name())
		}
		named[c.Name()] = true
		p.nodes = append(p.nodes, n)
		p.columns = append(p.columns, Column{Name: c.Name(), Kind: n.kind(), Unsigned: n.kind() == Integer && isUnsigned(c.Type())})
	}
	p.leaves = leaves.n
	if p.columns == nil {
		return nil, errors.New("the file has no columns")
	}
	return p, nil
}

// checkFooter returns an error if the length of the footer, which the library allocates at once,
// exceeds the file. The length stands before the last four bytes, PAR1 or PARE.
func checkFooter(r io.ReaderAt, size int64) error {
	const begin, end = 4, 8 // bytes before and after the content and the footer
	if size < begin+end {
		return nil // the library refuses the file
	}
	var last [end]byte
	_, err := r.ReadAt(last[:], size-end)
	if err == nil && !bytes.HasPrefix(last[4:], []byte("PAR")) {
		return fmt.Errorf("%w or incomplete: its end is missing", errDamaged)
	}
	if int64(binary.LittleEndian.Uint32(last[:])) > size-begin-end {
		return fmt.Errorf("%w: its footer is longer than the file", errDamaged)
	}
	return err
}

// random returns a file that can be read at any offset, and its size. It copies stdin, pipes and
// compressed files to a temporary file.
func (f *file) random() (*os.File, int64, error) {
	if f.plain != nil {
		if info, err := f.plain.Stat(); err == nil && info.Mode().IsRegular() {
			return f.plain, info.Size(), nil
		}
	}
	temp, err := temporary()
	if err != nil {
		return nil, 0, err
	}
	f.closes = append(f.closes, temp.Close)
	size, err := io.Copy(temp, f.in)
	return temp, size, err
}

func (p *parquetReader) Columns() []Column { return p.columns }

func (p *parquetReader) Next() (r Record, err error) {
	row, err := p.row()
	if errors.Is(err, io.EOF) {
		return Record{}, io.EOF
	}
	p.number++
	if err != nil {
		return Record{}, p.file.fail(p.number, err)
	}
	p.fields = p.fields[:0]
	p.values.set(row, p.leaves)
	var damaged error
	for i, n := range p.nodes {
		v, err := p.value(n)
		if err != nil {
			damaged = cmp.Or(damaged, fmt.Errorf("column %q: %w", p.columns[i].Name, err))
		}
		if v == nil {
			continue // nothing of the value can be read
		}
		p.fields = append(p.fields, Field{p.columns[i].Name, v})
	}
	if damaged != nil {
		return Record{}, &RecordError{Number: p.number, Fields: p.fields, Err: damaged}
	}
	return Record{Number: p.number, Fields: p.fields}, nil
}

func (p *parquetReader) value(n *node) (v json.RawMessage, err error) {
	defer guard(&err)
	return n.appendTo(nil, &p.values)
}

// row returns the next row of the file, which is valid until the next call.
func (p *parquetReader) row() (row parquet.Row, err error) {
	defer guard(&err)
	for p.next == len(p.buf) {
		if p.rows == nil {
			if len(p.groups) == 0 {
				return nil, io.EOF
			}
			p.rows, p.groups = p.groups[0].Rows(), p.groups[1:]
		}
		p.buf, p.next = p.buf[:batchRows], 0
		n, err := p.rows.ReadRows(p.buf)
		p.buf = p.buf[:n]
		if errors.Is(err, io.EOF) {
			err = p.closeRows()
		}
		if err != nil {
			return nil, err
		}
		if n == 0 && p.rows != nil {
			return nil, io.ErrNoProgress
		}
	}
	p.next++
	return p.buf[p.next-1], nil
}

func (p *parquetReader) Close() error { return errors.Join(p.closeRows(), p.file.Close()) }

func (p *parquetReader) closeRows() (err error) {
	defer guard(&err)
	if p.rows == nil {
		return nil
	}
	rows := p.rows
	p.rows = nil
	return rows.Close()
}
