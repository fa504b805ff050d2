package eval_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/harnesstest"
	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/eval/taskcode"
)

// shareCase is a task file of the harness, and what the harness computes for two made-up rows.
type shareCase struct {
	harnesstest.Run
	File     string            `json:"file"`
	Reason   string            `json:"reason"` // why the harness does not run the task; empty if it does
	Rows     []json.RawMessage `json:"rows"`
	Examples []json.RawMessage `json:"examples"`
}

// shareWithout and shareWith are the shares of task files that must run without and with Python.
const shareWithout, shareWith = 0.60, 0.90

// TestShareOfTaskFiles prints the share of the task files of lm-eval that run here, without and
// with Python: prompts, targets and scores of the rows are the harness's. The other files are
// counted by reason. `make harness` records what the harness computes for all of them.
func TestShareOfTaskFiles(t *testing.T) {
	recorded := os.Getenv("INGOT_HARNESS")
	if recorded == "" {
		t.Skip("the share of the harness's task files that run is not measured: `make harness` installs the package lm-eval and measures it")
	}
	f, err := os.Open(recorded)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	require.True(t, lines.Scan())
	var head struct {
		Folder  string `json:"folder"`
		Version string `json:"version"`
		Files   int    `json:"files"` // number of the task files
		Part    bool   `json:"part"`  // only those of some folders are recorded
	}
	require.NoError(t, json.Unmarshal(lines.Bytes(), &head))
	require.Equal(t, "0.4.13", head.Version)
	var all []shareCase
	for lines.Scan() {
		var c shareCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		all = append(all, c)
	}
	require.NoError(t, lines.Err())
	require.Len(t, all, head.Files, "make harness goes on where it has stopped")
	left := share(t, "without Python", len(all), all, false, head.Folder)
	enough := func(share float64) bool { return head.Part || float64(len(left)) <= (1-share)*float64(len(all)) }
	require.True(t, enough(shareWithout), "fewer than %.0f %% run", 100*shareWithout)
	left = share(t, "with Python", len(all), left, true, head.Folder)
	require.True(t, enough(shareWith), "fewer than %.0f %% run", 100*shareWith)
}

// share runs cases, several at once, and prints the share of task files that run. It returns those
// that do not run.
func share(t *testing.T, how string, all int, cases []shareCase, inPython bool, folder string) (left []shareCase) {
	t.Helper()
	found := make([]string, len(cases))
	next, runs := make(chan int), t.TempDir()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		var python *taskcode.Process
		if inPython {
			python = harnesstest.Python(t)
		}
		wg.Go(func() {
			for i := range next {
				found[i] = cases[i].run(t, folder, filepath.Join(runs, strconv.Itoa(i)), python)
				if inPython && python.Start() != nil { // a function ended the process
					python = harnesstest.Python(t)
				}
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	wg.Wait()
	reasons := map[string][]string{}
	for i, reason := range found {
		if reason != "" {
			reasons[reason] = append(reasons[reason], cases[i].File)
			left = append(left, cases[i])
		}
	}
	for _, reason := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Compare(len(reasons[b]), len(reasons[a])) }) {
		t.Logf("%5d %s (%s)", len(reasons[reason]), reason, reasons[reason][0])
	}
	t.Logf("%s, %d of %d task files run: %.1f %%", how, all-len(left), all, 100*float64(all-len(left))/float64(all))
	return left
}

// failure ends a comparison; its message is the reason why a task does not run.
type failure struct{ message string }

func (f *failure) Errorf(format string, args ...any) { f.message = fmt.Sprintf(format, args...) }
func (f *failure) FailNow()                          { panic(f) }
func (f *failure) Helper()                           {}

// run returns the reason why a task does not run, or an empty text. run is a folder for the run,
// which is removed.
func (c *shareCase) run(t *testing.T, folder, run string, python *taskcode.Process) (reason string) {
	if c.Reason != "" {
		return kindOf(c.Reason)
	}
	if err := os.MkdirAll(run, 0o755); err != nil {
		return err.Error()
	}
	f := &failure{}
	defer func() {
		os.RemoveAll(run) //nolint:errcheck // the system removes what is left
		if v := recover(); v == f {
			reason = "another result: " + kindOf(reportOf(f.message))
		} else if v != nil {
			panic(v)
		}
	}()
	one, err := task.ReadTrusted(filepath.Join(folder, c.File), python)
	if err != nil {
		return kindOf(strings.TrimPrefix(err.Error(), "read task "+folder+"/"))
	}
	c.onRows(t, run, one)
	c.Compare(f, filepath.Join(run, "run"), []*task.Task{one}, nil)
	return ""
}

// onRows gives a task the recorded rows and examples.
func (c *shareCase) onRows(t *testing.T, folder string, one *task.Task) {
	t.Helper()
	one.Data = writeRows(t, folder, "rows.jsonl", c.Rows)
	if one.Splits.Examples() != one.Splits.Rows() {
		one.FewShotData = writeRows(t, folder, "examples.jsonl", c.Examples)
	}
}

func writeRows(t *testing.T, folder, name string, rows []json.RawMessage) string {
	t.Helper()
	var text strings.Builder
	for _, r := range rows {
		text.Write(r)
		text.WriteByte('\n')
	}
	path := filepath.Join(folder, name)
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// reportOf returns the error in a message of testify, without the trace.
func reportOf(message string) string {
	_, text, _ := strings.Cut(message, "Error:")
	text, _, _ = strings.Cut(text, "Test:")
	return strings.Join(strings.Fields(text), " ")
}

var (
	place  = regexp.MustCompile(`^\S+(:\d+)?: `)
	quoted = regexp.MustCompile(`"[^"]*"|'[^']*'|\d+|/\S+`)
)

// kindOf returns a message without what differs between tasks.
func kindOf(message string) string {
	message = quoted.ReplaceAllString(place.ReplaceAllString(message, ""), "…")
	message = strings.ReplaceAll(message, "…, ", "")
	return strings.ToValidUTF8(message[:min(len(message), 100)], "")
}
