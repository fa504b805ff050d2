package batch

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
)

// Codes of faults in batches of the HTTP API. Rows of `ingot run` cannot have these faults.
const (
	codeInvalidLine   = "invalid_json_line"
	codeEmptyFile     = "empty_file"
	codeTooManyRows   = "too_many_tasks"
	codeModelMismatch = "model_mismatch" // the line's model is not that of the first line
)

// maxFaults is the maximum number of faults in Batch.Errors. Validation continues after it, to
// count the faults.
const maxFaults = 1000

// validation checks the input of a batch line by line. It needs about 20 bytes of memory per line.
type validation struct {
	endpoint openai.Endpoint
	models   []string // models of the server; empty if rows may name any model
	allowed  []string // models that this batch may use; nil for all

	total  int
	texts  int                 // number of lines with a text as prompt
	model  string              // model that the lines so far name; empty if they name none
	ids    map[uint64]struct{} // hashes of the custom_ids in the lines so far
	faults []Fault
	count  int // number of faults, including those beyond maxFaults
}

// read checks the input of a batch. Faults are recorded in v; an error means that the input cannot
// be read now.
func (v *validation) read(ctx context.Context, in io.Reader) error {
	v.ids = map[uint64]struct{}{}
	lines := rows.NewReader(in, rows.Options{Format: rows.FormatJSONL})
	for ctx.Err() == nil {
		l, err := lines.NextLine()
		switch {
		case errors.Is(err, io.EOF):
			v.conclude()
			return nil
		case errors.Is(err, rows.ErrFormat):
			v.fault(Fault{Code: codeInvalidLine, Message: err.Error()})
			return nil
		case err != nil:
			return err
		}
		v.total++
		if l.Number > queue.MaxLineNumber || v.total > MaxRows {
			v.fault(Fault{Code: codeTooManyRows, Message: fmt.Sprintf("the file has more than %d lines: divide it into several batches", MaxRows)})
			return nil
		}
		if err := v.checkLine(l); err != nil {
			v.fault(newFault(l.Number, err))
		}
	}
	return ctx.Err()
}

// conclude adds the faults that are known only after the last line.
func (v *validation) conclude() {
	if v.total == 0 {
		v.fault(Fault{Code: codeEmptyFile, Message: "the file has no lines: upload a file with one request per line"})
	}
	if more := v.count - len(v.faults); more > 0 {
		last := &v.faults[len(v.faults)-1]
		last.Message += fmt.Sprintf(" (%d more lines have faults)", more)
	}
}

func (v *validation) fault(f Fault) {
	if v.count++; v.count <= maxFaults {
		v.faults = append(v.faults, f)
	}
}

func newFault(line int, e *openai.Error) Fault {
	code, ok := faultCodes[e.Code]
	if !ok {
		code = e.Code
	}
	f := Fault{Code: code, Message: fmt.Sprintf("line %d: %s", line, e.Message), Line: &line}
	if e.Param != "" {
		f.Param = &e.Param
	}
	return f
}

// faultCodes maps codes of rows to OpenAI's codes of faults. Codes without an entry are the same.
var faultCodes = map[string]string{
	openai.CodeInvalidJSON: codeInvalidLine,
	openai.CodeInvalidText: codeInvalidLine,
	openai.CodeMissing:     openai.CodeMissingParameter,
}

func (v *validation) checkLine(l rows.Line) *openai.Error {
	if l.Long {
		return &openai.Error{Code: openai.CodeTooLong, Message: fmt.Sprintf("is longer than %d MiB", rows.MaxLine>>20)}
	}
	if !utf8.Valid(l.Text) {
		return &openai.Error{Code: openai.CodeInvalidText, Message: "is not UTF-8"}
	}
	line, err := openai.CheckBatchLine(l.Text, v.endpoint)
	if line.CustomID != "" {
		if _, used := v.ids[hash(line.CustomID)]; used && err == nil {
			return &openai.Error{Code: openai.CodeDuplicateID, Param: "custom_id",
				Message: fmt.Sprintf("custom_id %q was used by an earlier line", line.CustomID)}
		}
		v.ids[hash(line.CustomID)] = struct{}{}
	}
	if err != nil {
		return openai.AsError(err)
	}
	if rows.HasText(l.Text) {
		v.texts++
	}
	return v.checkModel(line.Model)
}

// checkModel checks that all lines name the same model. If the server has only one model, lines
// need not name it.
func (v *validation) checkModel(name string) *openai.Error {
	const param = "body.model"
	fail := func(code, format string, args ...any) *openai.Error {
		return &openai.Error{Code: code, Param: param, Message: fmt.Sprintf("%q ", param) + fmt.Sprintf(format, args...)}
	}
	if name == "" && len(v.models) == 1 {
		name = v.models[0]
	}
	switch {
	case name == "":
		return fail(openai.CodeMissing, "is missing")
	case name == v.model:
		return nil
	case v.model != "":
		return fail(codeModelMismatch, "is %.128q, but an earlier line names %q: all lines of a batch have the same model", name, v.model)
	case len(v.models) > 0 && !slices.Contains(v.models, name):
		return fail(openai.CodeUnknownModel, "is %.128q: use %s", name, textfmt.QuotedOr(v.models))
	case v.allowed != nil && !slices.Contains(v.allowed, name):
		return fail(openai.CodeUnknownModel, "is %.128q, which the API key may not use", name)
	case queue.CheckAlias(name) != nil:
		return fail(openai.CodeUnknownModel, "is %.128q, which is not a valid model name", name)
	}
	v.model = name
	return nil
}

func hash(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.LittleEndian.Uint64(sum[:])
}

func isObject(text []byte) bool { return json.Valid(text) && text[0] == '{' }
