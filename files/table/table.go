// Package table reads and writes tables: files of records with named values, such as CSV, Parquet
// and JSON.
package table

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
	Name     string
	Kind     Kind
	Unsigned bool // an Integer column of Parquet has 64 bits without a sign
	Untyped  bool // the file has only texts, as CSV has: a String column may have numbers
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

	// Request is the checksum of the request that was made from the record; empty if it is not
	// known. See package prompt.
	Request string
	// OwnForm reports whether the request asks for a form of the answer other than the one that the
	// flags of the run give. It is false if they give none, or if the request is not known.
	OwnForm bool
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

// Sum returns the record's checksum, 8 hex digits: the start of the SHA-256 of its line or, without
// a line, of the names and values of its fields.
func (r Record) Sum() string {
	h := sha256.New()
	h.Write(r.Line)
	if r.Line == nil {
		for _, f := range r.Fields {
			h.Write(fmt.Appendf(nil, "%d:%s%d:%s", len(f.Name), f.Name, len(f.Value), f.Value))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// ReasonColumn is the column in which a file of failed rows says why a row failed. Readers leave
// the column out. A record whose reason begins with UnusableReason is an error until somebody has
// corrected the record and removed the reason.
const (
	ReasonColumn   = "ingot_error"
	UnusableReason = "invalid_record"
)

// LineColumn is the field of what was read of a record from which no fields could be read.
const LineColumn = "line"

// RecordError is an error of one record.
type RecordError struct {
	Number int     // number of the record, as in Record
	Line   []byte  // as in Record
	Fields []Field // fields that could be read, with U+FFFD instead of bytes that are not UTF-8
	Err    error

	Request string // as in Record
}

// Record returns what could be read of the record.
func (e *RecordError) Record() Record {
	return Record{Number: e.Number, Fields: e.Fields, Line: e.Line, Request: e.Request}
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
