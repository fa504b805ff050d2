// Package table reads and writes tables: files of records with named values, such as CSV, Parquet and JSON.
package table

import "encoding/json"

// Kind is the type of a column's values.
type Kind string

// The kinds. A value of any kind can be null.
const (
	String  Kind = "string"
	Integer Kind = "integer" // 64 bits
	Number  Kind = "number"  // float64
	Boolean Kind = "boolean"
	JSON    Kind = "json" // arrays, objects, or values of several kinds
)

// Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
}

// Field is a value of a record with its column's name.
type Field struct {
	Name  string
	Value json.RawMessage // one JSON value; null if the record has none
}

// Record is one record of a table.
type Record struct {
	Number int     // from 1, in the order of the file; in files of lines, the line number
	Fields []Field // in the order of the columns
	Line   []byte  // the line as it stands, without its end; nil if the file does not consist of lines
}

// Reader reads the records of a table in order.
type Reader interface {
	// Columns returns the columns that all records have. It returns nil if each record has its own, as in JSON Lines.
	Columns() []Column
	// Next returns the next record, or io.EOF. A *RecordError concerns this record alone, and reading can go on. A record is valid
	// until the next call.
	Next() (Record, error)
	Close() error
}

// RecordError is an error of one record.
type RecordError struct {
	Number int    // of the record, from 1
	Line   []byte // as in Record
	Err    error
}

// Error returns the reason without the number.
func (e *RecordError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RecordError) Unwrap() error { return e.Err }

// Writer writes the records of a table. A file is complete only after Close.
type Writer interface {
	// Write appends a record. Columns that it lacks are null.
	Write(Record) error
	Close() error
}
