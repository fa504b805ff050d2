package rows

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/openai"
)

// result is a result of batch b.
type result struct {
	line   int
	text   []byte
	failed bool
}

func newResult(line int, l openai.OutputLine) result {
	l.ID, l.CustomID = openai.ResultID("b", line, fmt.Sprintf("%08x", line)), "x"
	text, err := openai.Marshal(l)
	if err != nil {
		panic(err)
	}
	return result{line, text, l.Error != nil}
}

func answer(line int) result {
	return newResult(line, openai.OutputLine{Response: &openai.Response{StatusCode: 200, Body: struct{}{}}})
}

func failure(line int) result {
	return newResult(line, openai.OutputLine{Error: &openai.Error{Code: openai.CodeFailed, Message: "no"}})
}

func lines(results ...result) string {
	var b strings.Builder
	for _, r := range results {
		b.Write(r.text)
		b.WriteByte('\n')
	}
	return b.String()
}

func openWith(t testing.TB, content string) (*Output, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	o, err := OpenOutput(path, "b")
	if err == nil {
		t.Cleanup(func() { o.Close() })
	}
	return o, path, err
}

func write(t testing.TB, o *Output, results ...result) {
	t.Helper()
	for _, r := range results {
		require.NoError(t, o.Write(r.line, r.text, r.failed))
	}
}

func content(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestOutputHoldsEachRowOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new.jsonl")
	o, err := OpenOutput(path, "b")
	require.NoError(t, err)
	write(t, o, answer(5), failure(2), answer(5))
	require.True(t, o.Has(5))
	require.False(t, o.Has(4))
	require.False(t, o.Has(5000))
	require.NoError(t, o.Close())
	require.Equal(t, lines(answer(5), failure(2)), content(t, path))

	o, err = OpenOutput(path, "b")
	require.NoError(t, err)
	results, failed := o.Counts()
	require.Equal(t, []int{2, 1}, []int{results, failed})
	require.Equal(t, map[string]Failures{openai.CodeFailed: {1, "no"}}, o.Codes())
	write(t, o, failure(3))
	require.Equal(t, map[string]Failures{openai.CodeFailed: {2, "no"}}, o.Codes())
	write(t, o, failure(2), answer(5), answer(64))
	results, failed = o.Counts()
	require.Equal(t, []int{2, 1}, []int{results, failed}, "results that the file does not have yet")
	require.NoError(t, o.Flush())
	results, failed = o.Counts()
	require.Equal(t, []int{4, 2}, []int{results, failed})
	require.NoError(t, o.Close())
	require.Equal(t, lines(answer(5), failure(2), failure(3), answer(64)), content(t, path))
}

// If a process is killed while it writes, only the last line can be incomplete. That line is
// removed, and the lines before it stay.
func TestOutputRepairsItsLastLine(t *testing.T) {
	t.Parallel()
	whole := lines(answer(1), failure(2), answer(3))
	for cut := 0; cut <= len(whole); cut += 11 {
		o, path, err := openWith(t, whole[:cut])
		require.NoError(t, err, "cut at %d", cut)
		kept := strings.LastIndexByte(whole[:cut], '\n') + 1
		require.Equal(t, whole[:kept], content(t, path))
		write(t, o, answer(1), failure(2), answer(3))
		require.NoError(t, o.Close())
		require.Equal(t, whole, content(t, path))
	}
}

// After a crash of the machine, the file can have zeros from any byte to its end.
func TestOutputRepairsATailOfZeros(t *testing.T) {
	t.Parallel()
	first, second := lines(answer(1)), lines(answer(2))
	for cut := range second {
		for _, zeros := range []int{1, 5000} {
			o, path, err := openWith(t, first+second[:cut]+strings.Repeat("\x00", zeros))
			require.NoError(t, err, "cut at %d", cut)
			require.False(t, o.Has(2))
			require.Equal(t, first, content(t, path))
			write(t, o, answer(2))
			require.NoError(t, o.Close())
			require.Equal(t, first+second, content(t, path))
		}
	}
}

// After a crash, a file can end with zeros, even with more of them than any line has bytes. This
// file is sparse, so that its zeros need no space on the disk.
func TestOutputRepairsALongTailOfZeros(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(lines(answer(1))+`{"id":"bat`), 0o600))
	require.NoError(t, os.Truncate(path, openai.MaxOutputLine+1<<20))
	o, err := OpenOutput(path, "b")
	require.NoError(t, err)
	require.NoError(t, o.Close())
	require.Equal(t, lines(answer(1)), content(t, path))
}

// A last line that is cut anywhere, even inside its id, is removed. Text that is not the beginning
// of a result of this batch is not removed.
func TestOutputRepairsALineCutInsideItsID(t *testing.T) {
	t.Parallel()
	const id = `{"id":"batch_req_b-2-00000002"`
	for cut := range len(id) + 1 {
		o, path, err := openWith(t, lines(answer(1))+id[:cut])
		require.NoError(t, err, "cut at %d", cut)
		require.NoError(t, o.Close())
		require.Equal(t, lines(answer(1)), content(t, path))
	}
	for _, other := range []string{"{'", `{"ids`, `{"id":"batch_req_c`, `{"id":"batch_req_b2`, "\x00{", " "} {
		path := filepath.Join(t.TempDir(), "out.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(other), 0o600))
		_, err := OpenOutput(path, "b")
		require.ErrorContains(t, err, "not a result", other)
		require.Equal(t, other, content(t, path))
	}
}

// The memory of an output depends on the number of lines, not on how large the line numbers are.
func TestOutputWithHugeLineNumbers(t *testing.T) { //nolint:paralleltest // the test measures memory
	var results []result
	for i := range 1000 {
		results = append(results, answer(math.MaxInt32-i*100_000))
	}
	text := lines(results...)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	o, _, err := openWith(t, text)
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(64<<20))
	for _, r := range results {
		require.True(t, o.Has(r.line))
		require.False(t, o.Has(r.line-1))
		require.False(t, o.Has(-r.line))
		same, err := o.CheckSum(r.line, fmt.Sprintf("%08x", r.line))
		require.NoError(t, err)
		require.True(t, same)
		_, err = o.CheckSum(r.line, "00000000")
		require.ErrorIs(t, err, ErrOtherFile)
	}
}

// A line that is too long for a result is not read into memory.
func TestOutputRefusesALineThatIsTooLong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	require.NoError(t, os.WriteFile(path, append(make([]byte, openai.MaxOutputLine), '\n'), 0o600))
	_, err := OpenOutput(path, "b")
	require.ErrorContains(t, err, "out.jsonl:1: the line is not a result of ingot, since it is longer than 64 MiB")

	longest := bytes.Repeat([]byte(" "), openai.MaxOutputLine)
	copy(longest, answer(1).text)
	longest[len(longest)-1] = '\n'
	require.NoError(t, os.WriteFile(path, longest, 0o600))
	o, err := OpenOutput(path, "b")
	require.NoError(t, err)
	require.True(t, o.Has(1))
	require.NoError(t, o.Close())
}

func TestOutputLeavesOtherFilesAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"rows":                        {"{\"prompt\":\"a\"}\n", "out.jsonl:1: the line is not a result"},
		"rows without a last end":     {`{"prompt":"a"}`, "out.jsonl:1: the line is not a result"},
		"text":                        {"hello\n", "out.jsonl:1: the line is not a result"},
		"text without a last end":     {"hello", "out.jsonl:1: the line is not a result"},
		"a result, then text":         {lines(answer(1)) + "hello\n", "out.jsonl:2: the line is not a result"},
		"a broken line in the middle": {lines(answer(1)) + `{"id":"batch_req_b-2` + "\n" + lines(answer(3)), "out.jsonl:2: the line is not a result"},
		"another batch":               {strings.ReplaceAll(lines(answer(1)), "batch_req_b-", "batch_req_c-"), "is of batch c, not b"},
		"another batch, cut short":    {`{"id":"batch_req_c-`, "not a result"},
		"a row twice":                 {lines(answer(1), answer(1)), "the output has two results for line 1 of the input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "out.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			_, err := OpenOutput(path, "b")
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.text, content(t, path))
		})
	}
}

// The shortest context for which a prompt was too long, of the lines that the file had.
func TestPromptsThatWereTooLong(t *testing.T) {
	t.Parallel()
	tooLong := func(line, context int, code string) result {
		r := newResult(line, openai.OutputLine{Error: &openai.Error{Code: code, Message: "no"}})
		r.text = fmt.Appendf(bytes.TrimSuffix(r.text, []byte("}")), `,"stats":{"context":%d}}`, context)
		return r
	}
	for _, c := range []struct {
		results []result
		longest int // the longest context that has no shorter one
	}{
		{[]result{answer(1), failure(2), tooLong(3, 0, openai.CodeContext), tooLong(4, 10, openai.CodeFailed)}, 1 << 20},
		{[]result{tooLong(1, 30, openai.CodeContext), failure(2), tooLong(3, 0, openai.CodeContext)}, 30},
		{[]result{tooLong(1, 30, openai.CodeContext), tooLong(2, 20, openai.CodeContext), tooLong(3, 40, openai.CodeContext)}, 20},
	} {
		o, _, err := openWith(t, lines(c.results...))
		require.NoError(t, err)
		require.False(t, o.HasTooShort(c.longest))
		require.Equal(t, c.longest < 1<<20, o.HasTooShort(c.longest+1))
	}
}

func TestOutputIsLocked(t *testing.T) {
	t.Parallel()
	o, path, err := openWith(t, "")
	require.NoError(t, err)
	_, err = OpenOutput(path, "b")
	require.ErrorContains(t, err, "is in use by another process")
	require.NoError(t, o.Close())
	o, err = OpenOutput(path, "b")
	require.NoError(t, err)
	require.NoError(t, o.Close())
}

func TestOutputNoticesAnotherInput(t *testing.T) {
	t.Parallel()
	o, path, err := openWith(t, lines(answer(2)))
	require.NoError(t, err)
	require.NoError(t, o.Check(Row{Line: 2, Sum: "00000002"}))
	require.NoError(t, o.Check(Row{Line: 1, Sum: "12345678"}), "the output has no result for this line")
	require.NoError(t, o.Check(Row{Line: 900, Sum: "12345678"}), "the output has no result for this line")
	err = o.Check(Row{Line: 2, Sum: "12345678"})
	require.ErrorIs(t, err, ErrOtherFile)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "line 2")
	write(t, o, answer(3))
	require.NoError(t, o.Check(Row{Line: 3, Sum: "12345678"}), "this run wrote it from the same input")
}

func TestOutputToAWriter(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	o := NewOutput(&b, "b")
	write(t, o, answer(1), answer(1))
	require.NoError(t, o.Flush())
	require.Equal(t, lines(answer(1)), b.String())
	require.NoError(t, o.Close())

	o, err := OpenOutput(os.DevNull, "b")
	require.NoError(t, err)
	write(t, o, answer(1))
	require.NoError(t, o.Close())
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputReturnsWriteErrors(t *testing.T) {
	t.Parallel()
	o := NewOutput(fullDisk{}, "b")
	write(t, o, answer(1))
	require.ErrorContains(t, o.Flush(), "write results: no space left")
	require.Error(t, o.Write(2, answer(2).text, false))
	require.Error(t, o.Close())
}

// A process that starts while an output is being closed inherits the open file for a moment.
func TestOutputCloseUnlocks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	o, err := OpenOutput(path, "b")
	require.NoError(t, err)
	inherited, err := unix.Dup(int(o.file.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(inherited)) })
	require.NoError(t, o.Close())

	again, err := OpenOutput(path, "b")
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// A file is written, cut at a random byte and written again, many times. At the end, it has each
// row once.
func TestOutputAfterManyKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := 0
	rapid.Check(t, func(t *rapid.T) {
		files++
		path := filepath.Join(dir, fmt.Sprint(files))
		rows := rapid.IntRange(1, 20).Draw(t, "rows")
		for range rapid.IntRange(0, 4).Draw(t, "kills") {
			o, err := OpenOutput(path, "b")
			require.NoError(t, err)
			for _, line := range rapid.SliceOf(rapid.IntRange(1, rows)).Draw(t, "order") {
				r := answer(line)
				require.NoError(t, o.Write(r.line, r.text, r.failed))
			}
			require.NoError(t, o.Close())
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(path, info.Size()-rapid.Int64Range(0, min(info.Size(), 300)).Draw(t, "lost")))
		}
		o, err := OpenOutput(path, "b")
		require.NoError(t, err)
		for line := range rows {
			r := answer(line + 1)
			require.NoError(t, o.Write(r.line, r.text, r.failed))
		}
		require.NoError(t, o.Close())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		seen := map[string]bool{}
		for l := range strings.Lines(string(text)) {
			seen[l] = true
		}
		require.Len(t, seen, rows)
		require.Equal(t, rows, strings.Count(string(text), "\n"))
	})
}

// TestAnOutputThatChanged: an output that another program removed, replaced, truncated or extended
// is an error before anybody can believe that the file has the results.
func TestAnOutputThatChanged(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(path string) error{
		"was removed": os.Remove,
		"was replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".1"), os.WriteFile(path, nil, 0o600))
		},
		"bytes, and":        func(path string) error { return os.Truncate(path, 0) },
		"were written":      func(path string) error { return os.Truncate(path, 1<<20) },
		"by another file":   func(path string) error { return errors.Join(os.Remove(path), os.Symlink(os.DevNull, path)) },
		"was removed: run ": func(path string) error { return os.Rename(path, path+".moved") },
	} {
		for name, finish := range map[string]func(*Output) error{"flush": (*Output).Flush, "sync": (*Output).Sync, "close": (*Output).Close} {
			t.Run(what+" "+name, func(t *testing.T) {
				t.Parallel()
				o, path, err := openWith(t, lines(answer(1)))
				require.NoError(t, err)
				write(t, o, answer(2))
				require.NoError(t, o.Sync())
				require.NoError(t, change(path))
				err = finish(o)
				require.ErrorIs(t, err, ErrNotOurs)
				require.ErrorContains(t, err, what)
			})
		}
	}
}

// answerOf returns an answer whose statistics have these fields.
func answerOf(line int, stats string) result {
	r := answer(line)
	r.text = append(bytes.TrimSuffix(r.text, []byte("}")), `,"stats":{`+stats+`}}`...)
	return r
}

// Answers are counted by what they depend on. What earlier versions did not write is not counted as
// different.
func TestByOtherModels(t *testing.T) {
	t.Parallel()
	own := Model{SHA256: "own", Arithmetic: "1/cpu/f16", Context: 128}
	for _, c := range []struct {
		name, stats string
		other       bool
	}{
		{"the same", `"model_sha256":"own","arithmetic":"1/cpu/f16","context":128`, false},
		{"an earlier version", `"model_sha256":"own"`, false},
		{"a context that ended no answer", `"model_sha256":"own","arithmetic":"1/cpu/f16","context":64`, false},
		{"a full context of the same length", `"model_sha256":"own","arithmetic":"1/cpu/f16","context":128,"context_full":true`, false},
		{"a full context of another length", `"model_sha256":"own","arithmetic":"1/cpu/f16","context":64,"context_full":true`, true},
		{"another arithmetic", `"model_sha256":"own","arithmetic":"1/cpu/q4_0","context":128`, true},
		{"recommended defaults of sampling", `"model_sha256":"own","arithmetic":"1/cpu/f16","default_sampling":"temperature=0.6","context":128`, true},
		{"another model of an earlier version", `"model_sha256":"other"`, true},
		{"another model", `"model_sha256":"other","arithmetic":"1/cpu/f16","context":128`, true},
		{"no model", ``, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o, _, err := openWith(t, lines(answerOf(1, c.stats), failure(2), answerOf(3, `"model_sha256":"own"`)))
			require.NoError(t, err)
			require.Equal(t, 2, o.Answers())
			n, _ := o.ByOtherModels(own)
			require.Equal(t, c.other, n == 1)
			require.LessOrEqual(t, n, 1)
		})
	}
	o, _, err := openWith(t, lines(
		answerOf(1, `"model_sha256":"own","arithmetic":"1/cpu/q8_0"`), answerOf(2, `"model_sha256":"other"`), answerOf(3, `"model_sha256":"own","arithmetic":"1/cpu/q4_0"`),
	))
	require.NoError(t, err)
	n, other := o.ByOtherModels(own)
	require.Equal(t, 3, n)
	require.Equal(t, Model{SHA256: "other"}, other)
}

// TestAFullDisk: a file can be continued when there is room again; a pipe cannot.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	full := &os.PathError{Op: "write", Path: "out.jsonl", Err: unix.ENOSPC}
	file, pipe := (&Output{regular: true}).writeError(full), (&Output{}).writeError(full)
	require.EqualError(t, file, "write results: write out.jsonl: no space left on device: make room, and run the same command again to continue")
	require.EqualError(t, pipe, "write results: write out.jsonl: no space left on device")
	require.ErrorIs(t, file, unix.ENOSPC)
}

// TestAbandon: an output that was made and has no result is removed, any other stays.
func TestAbandon(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	o, err := OpenOutput(path, "b")
	require.NoError(t, err)
	require.NoError(t, o.Abandon())
	require.NoFileExists(t, path)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	o, err = OpenOutput(path, "b")
	require.NoError(t, err)
	require.NoError(t, o.Abandon())
	require.FileExists(t, path, "the file was there before")
	require.NoError(t, NewOutput(io.Discard, "b").Abandon())
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, errors.Join(r.Close(), w.Close()))
	o = NewOutput(w, "b")
	write(t, o, answer(1))
	require.ErrorIs(t, o.Abandon(), os.ErrClosed)
}
