// Package table reads and writes tables: files of records with named values, such as CSV, Parquet
// and JSON.
package table

import (
	"encoding/json"
	"strconv"
	"strings"
)

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

// Names returns the names of columns.
func Names(columns []Column) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.Name
	}
	return list
}

// Quoted lists names for messages.
func Quoted(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// Field is a value of a record with its column's name.
type Field struct {
	Name  string
	Value json.RawMessage // the value as JSON; null if the record has no value
}

// Record is one record of a table.
type Record struct {
	Number int     // line number in a file of lines, else the position in the file, from 1
	Fields []Field // in the order of the columns
	Line   []byte  // the unchanged line without its line end; nil if the file does not consist of lines
}

// Reader reads the records of a table in order.
type Reader interface {
	// Columns returns the columns that all records have. It returns nil if each record has its own
	// columns, as in JSON Lines.
	Columns() []Column
	// Next returns the next record, or io.EOF. After a *RecordError, which concerns only one
	// record, reading can continue. A record is valid until the next call.
	Next() (Record, error)
	Close() error
}

// RecordError is an error of one record.
type RecordError struct {
	Number int    // number of the record, as in Record
	Line   []byte // as in Record
	Err    error
}

// Error returns the reason without the number of the record.
func (e *RecordError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RecordError) Unwrap() error { return e.Err }

// Writer writes the records of a table. The output is complete only after Close.
type Writer interface {
	// Write appends a record. Columns that the record lacks are null.
	Write(Record) error
	Close() error
}
