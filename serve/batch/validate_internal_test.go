package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
)

// lineOf returns an input line for the model m.
func lineOf(id, fields string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/completions","body":{"model":"m","prompt":%s}}`+"\n", id, fields)
}

// repeated reads a text n times.
type repeated struct {
	text string
	n    int
	rest string
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.n == 0 {
			return 0, io.EOF
		}
		count := min(r.n, 1000)
		r.n -= count
		r.rest = strings.Repeat(r.text, count)
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// What is wrong with an input, line by line.
func TestFaultsOfInputs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input               io.Reader
		faults              []string // code, line and message of each fault
		total, texts, count int
	}{
		"good lines":             {strings.NewReader(lineOf("a", `"x"`) + "\n" + lineOf("b", "[1]") + lineOf("c", `"y"`)), nil, 3, 2, 0},
		"no lines":               {strings.NewReader("\n"), []string{"empty_file 0 the file has no lines: upload a file with one request per line"}, 0, 0, 1},
		"another format":         {strings.NewReader("PAR1\x15"), []string{"invalid_json_line 0 "}, 0, 0, 1},
		"not UTF-8":              {strings.NewReader("{}\xff\n"), []string{"invalid_json_line 1 line 1: is not UTF-8"}, 1, 0, 1},
		"a duplicate":            {strings.NewReader(lineOf("a", `"x"`) + lineOf("a", `"x"`)), []string{`duplicate_custom_id 2 line 2: custom_id "a" was used by an earlier line`}, 2, 1, 1},
		"a faulty duplicate":     {strings.NewReader(lineOf("a", `"x"`) + strings.Replace(lineOf("a", `"x"`), "POST", "GET", 1)), []string{`invalid_value 2 line 2: "method"`}, 2, 1, 1},
		"a duplicate of a fault": {strings.NewReader(strings.Replace(lineOf("a", `"x"`), "POST", "GET", 1) + lineOf("a", `"x"`)), []string{`invalid_value 1 line 1: "method"`, "duplicate_custom_id 2 "}, 2, 0, 2},
		"a long line":            {io.MultiReader(&repeated{text: " ", n: rows.MaxLine}, strings.NewReader("{}\n"+lineOf("a", `"x"`))), []string{fmt.Sprintf("line_too_long 1 line 1: is longer than %d MiB", rows.MaxLine>>20)}, 2, 1, 1},
		"one fault too many":     {&repeated{text: "null\n", n: maxFaults + 1}, nil, maxFaults + 1, 0, maxFaults + 1},
		"many faults":            {&repeated{text: "null\n", n: maxFaults}, nil, maxFaults, 0, maxFaults},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := validation{endpoint: openai.Completions}
			require.NoError(t, v.read(t.Context(), c.input))
			require.Equal(t, []int{c.total, c.texts, c.count}, []int{v.total, v.texts, v.count})
			require.Len(t, v.faults, min(c.count, maxFaults))
			for i, want := range c.faults {
				line := 0
				if v.faults[i].Line != nil {
					line = *v.faults[i].Line
				}
				require.Contains(t, fmt.Sprintln(v.faults[i].Code, line, v.faults[i].Message), want)
			}
			if c.count > 0 {
				last := v.faults[len(v.faults)-1].Message
				require.Equal(t, c.count > maxFaults, strings.HasSuffix(last, " (1 more lines have faults)"), last)
				require.Equal(t, c.count > maxFaults, strings.Contains(last, "more lines have"), last)
			}
		})
	}
}

// An input has as many rows as a batch can have, and no more.
func TestInputsThatAreTooLong(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 1} {
		v := validation{endpoint: openai.Completions, total: MaxRows - 1}
		require.NoError(t, v.read(t.Context(), &repeated{text: lineOf("a", `"x"`), n: 1 + more}))
		require.Len(t, v.faults, more)
		for _, f := range v.faults {
			require.Equal(t, codeTooManyRows, f.Code)
			require.Nil(t, f.Line)
		}
	}
}

// An input that cannot be read now has no faults.
func TestInputsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	v := validation{endpoint: openai.Completions}
	require.ErrorIs(t, v.read(t.Context(), io.MultiReader(strings.NewReader("null\n"), iotest.ErrReader(broken))), broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, v.read(ctx, strings.NewReader("null\n")), context.Canceled)
}
