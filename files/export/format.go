package export

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/ingot-run/ingot/files/table"
)

// Format is a format of files of answers.
type Format string

// The formats. All but Batch are tables.
const (
	Batch   Format = "batch"  // lines of OpenAI's Batch API
	Simple  Format = "simple" // JSON Lines with one flat object per answer
	JSON    Format = "json"   // an array of the objects of Simple
	CSV     Format = "csv"
	TSV     Format = "tsv"
	Parquet Format = "parquet"
)

// Formats lists all formats.
var Formats = []Format{Batch, Simple, JSON, CSV, TSV, Parquet}

// FormatOf returns the format that the extension of a path selects; Batch if none does.
func FormatOf(path string) Format {
	path, _ = table.TrimCompression(path)
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return JSON
	case ".csv":
		return CSV
	case ".tsv", ".tab":
		return TSV
	case ".parquet", ".pq":
		return Parquet
	}
	return Batch
}

func (f Format) newWriter(w io.Writer, columns []table.Column) (table.Writer, error) {
	switch f {
	case Simple:
		return table.NewJSONWriter(w, columns)
	case JSON:
		return table.NewArrayWriter(w, columns)
	case CSV:
		return table.NewCSVWriter(w, ',', columns)
	case TSV:
		return table.NewCSVWriter(w, '\t', columns)
	case Parquet:
		return table.NewParquetWriter(w, columns)
	}
	return nil, fmt.Errorf("%q is not the format of a table", f)
}

// CheckPath returns an error if a file of this format cannot have the path.
func (f Format) CheckPath(path string) error {
	if _, compressed := table.TrimCompression(path); compressed && f == Parquet {
		return errors.New("a Parquet file has its own compression: leave out the extension " + filepath.Ext(path))
	}
	path, _ = table.TrimCompression(path)
	switch extension := strings.ToLower(filepath.Ext(path)); extension {
	case ".xlsx", ".xls", ".ods", ".numbers":
		return fmt.Errorf("a spreadsheet (%s) cannot be written: give a name that ends in .csv, which spreadsheets open", extension)
	case ".feather", ".arrow", ".avro", ".orc":
		return fmt.Errorf("this format (%s) cannot be written: give a name that ends in .parquet", extension)
	}
	return nil
}
