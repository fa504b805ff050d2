package taskcode

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

const source = `
import os
import random
import socket
import sys

import datasets


def keys(doc):
    print("noise")
    return list(doc)

def values(doc):
    return {"whole": isinstance(doc["whole"], int), "real": isinstance(doc["real"], float), "none": doc["none"], "nan": float("nan")}

def process_docs(dataset: datasets.Dataset):
    def number(doc, i):
        return {"i": i, "names": dataset.column_names}
    return dataset.filter(lambda d: d["keep"]).map(number, with_indices=True)

def process_results(doc, results):
    (ll, greedy), answer = results
    return {"acc": ll > -2 and greedy, "all": [True, False], "n": len(answer), "kinds": ((1, float("nan")), {1: 2}), "none": None}

def written(items):
    return [repr(v) for v in items]

def both(references, predictions, factor):
    return factor * (references == predictions)

def pair(items):
    return items

def several(references, predictions):
    return {"x": 1, "y": 2}

def named(resps, docs):
    return [[f"{r} of {doc['name']}" for r in resp] for resp, doc in zip(resps, docs)]

def first(resps, docs):
    return map(lambda r: r[0], resps)

class Ends:
    def __init__(self, end="!"):
        self.end = end
    def apply(self, resps, docs):
        return [[r + self.end for r in resp] for resp in resps]

def programs(texts):
    from evaluate import load
    return load("code_eval").compute(references=["assert f(1) == 2"], predictions=[texts], k=[1], timeout=1.0)[0]["pass@1"]

def hub():
    import evaluate
    return evaluate.load("bertscore")

def drawn(doc):
    return random.random()

def connect(doc):
    socket.create_connection(("127.0.0.1", doc["port"]), timeout=1)

def endless(doc):
    while True:
        pass

def waits(doc):
    open(doc["fifo"], "w")
    endless(doc)

def dies(doc):
    os._exit(3)

def process(doc):
    return os.getpid()

def ends(doc):
    sys.exit("over")

def large(doc):
    return len(bytearray(8 << 30))

counted = []

def count(doc):
    counted.append(doc)
    return len(counted)

class Text:
    @staticmethod
    def of(doc):
        return "é" + doc["text"]
`

// start returns a process and the file of the functions above.
func start(t *testing.T) (*Process, string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("Python functions of tasks are not tested: install python3")
	}
	p := &Process{}
	if p.Start() != nil { // a container may not have network namespaces
		p = &Process{Unsandboxed: true}
		require.NoError(t, p.Start())
	}
	t.Cleanup(p.Close)
	file := filepath.Join(t.TempDir(), "utils.py")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	return p, file
}

func parse(t *testing.T, text string) ordered.Value {
	t.Helper()
	v, err := ordered.ParseJSON([]byte(text))
	require.NoError(t, err)
	return v
}

// listen returns the port of a server that accepts connections.
func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a listener of a test
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestCall(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	for name, c := range map[string]struct {
		kind Kind
		args []string
		want string
	}{
		"keys":         {Plain, []string{`{"b": 1, "a": 2, "c": 3}`}, `["b", "a", "c"]`},
		"values":       {Plain, []string{`{"whole": 1, "real": 1.0, "none": null}`}, `{"whole": true, "real": true, "none": null, "nan": null}`},
		"process_docs": {Rows, []string{`[{"keep": false, "x": 1}, {"keep": true, "x": "ü"}]`}, `[{"keep": true, "x": "ü", "i": 0, "names": ["keep", "x"]}]`},
		"Text.of":      {Plain, []string{`{"text": "a\nb"}`}, `"éa\nb"`},
		"drawn":        {Plain, []string{`{}`}, `0.8444218515250481`}, // the first number of the seed 0
	} {
		var args []ordered.Value
		for _, a := range c.args {
			args = append(args, parse(t, a))
		}
		got, err := p.Call(c.kind, file, name, args...)
		require.NoError(t, err, name)
		require.Equal(t, string(appendJSON(nil, parse(t, c.want))), string(appendJSON(nil, got)), name)
	}
}

// TestScoresOfFunctions: a function gets what the harness gives it, and an aggregation gets the
// values back as the functions have returned them.
func TestScoresOfFunctions(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	scores := func(kind Kind, name string, args ...string) (scores string, items map[string]ordered.Value) {
		var list []ordered.Value
		for _, a := range args {
			list = append(list, parse(t, a))
		}
		v, err := p.Call(kind, file, name, list...)
		require.NoError(t, err, name)
		all, _ := v.(*ordered.Object).Get("scores")
		exact, _ := v.(*ordered.Object).Get("items")
		items = map[string]ordered.Value{}
		for name, v := range exact.(*ordered.Object).All() {
			items[name] = v
		}
		return string(ordered.AppendJSON(nil, all)), items
	}
	got, items := scores(Results, "process_results", `{}`, `[[-1.5, true], "four"]`)
	require.JSONEq(t, `{"acc": true, "all": [true, false], "n": 4, "kinds": [[1, {"float": "nan"}], {"1": 2}], "none": null}`, got)
	kinds := []ordered.Value{items["kinds"], []ordered.Value{"a", int64(2)}}
	v, err := p.Call(Aggregate, file, "written", kinds)
	require.NoError(t, err)
	require.Equal(t, []ordered.Value{"((1, nan), {1: 2})", "('a', 2)"}, v)

	for _, c := range []struct{ name, gold, result, settings, want string }{
		{"both", `4`, `"4"`, `{"factor": 2}`, `{"both": 2}`},
		{"both", `["3", "4"]`, `"4"`, `{"factor": 2}`, `{"both": 1}`},
		{"both", `["3", "5"]`, `"4"`, `{"factor": 2}`, `{"both": 0}`},
		{"pair", `"a"`, `["b"]`, `{}`, `{"pair": ["a", ["b"]]}`},
		{"several", `"a"`, `"b"`, `{}`, `{"x": 1, "y": 2}`},
	} {
		got, _ := scores(Metric, c.name, c.gold, c.result, c.settings)
		require.JSONEq(t, c.want, got, "%+v", c)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	for _, c := range []struct{ name, given, settings, want string }{
		{"named", `["a", "b"]`, `{}`, `["a of Ann", "b of Ann"]`},
		{"first", `["a", "b"]`, `{}`, `"a"`},
		{"first", `"a"`, `{}`, `"a"`},
		{"Ends", `["a", "b"]`, `{"end": "."}`, `["a.", "b."]`},
		{"Ends", `["a"]`, `{}`, `["a!"]`},
	} {
		got, err := p.Call(Filter, file, c.name, parse(t, c.given), parse(t, `{"name": "Ann"}`), parse(t, c.settings))
		require.NoError(t, err)
		require.Equal(t, parse(t, c.want), got, "%+v", c)
	}
}

// TestPrograms runs programs that a model may have written. A program is right if it runs to its
// end.
func TestPrograms(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	for program, right := range map[string]bool{
		"def f(x): return x + 1": true, "def f(x): return x": false, "def f(x) return": false, "import os\ndef f(x): os._exit(0)": false,
		"import sys\ndef f(x): sys.exit(0)": false, "def f(x): raise KeyboardInterrupt": false, "def f(x):\n  while True: pass": false,
		"print('noise')\ndef f(x): return 2": true, "import os\ndef f(x): return 2 + len(os.listdir())": true,
		"import os\ndef f(x): return 2 if os.getcwd() else 0": false, "import subprocess\ndef f(x): subprocess.run(['true']); return 2": false, "import psutil\nf = lambda x: 2": false,
		"import os\ndef f(x): os.fork(); return 2": false, "help\ndef f(x): return 2 if help is None else 0": true, "import os\ndef f(x): return 2 if os.environ['OMP_NUM_THREADS'] == '1' else 0": true,
	} {
		v, err := p.Call(Plain, file, "programs", []ordered.Value{program})
		require.NoError(t, err)
		require.Equal(t, right, v == 1.0, program)
	}
	v, err := p.Call(Plain, file, "programs", []ordered.Value{"def f(x): return 2", "def f(x): return 3", "f = len"})
	require.NoError(t, err)
	require.InDelta(t, 1.0/3, v, 1e-15)
	_, err = p.Call(Plain, file, "hub")
	require.ErrorContains(t, err, "metric bertscore of the package evaluate is a program on a hub")
}

// TestErrorsOfFunctions checks that a function that fails is named, and that the next one runs.
func TestErrorsOfFunctions(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	for name, says := range map[string]string{"keys": "TypeError", "ends": "SystemExit: over", "large": "MemoryError", "absent": "has no attribute 'absent'"} {
		args := []ordered.Value{parse(t, `{}`)}
		if name == "keys" {
			args = nil
		}
		_, err := p.Call(Plain, file, name, args...)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "run the Python function "+name+" of "+file)
	}
	_, err := p.Call(Plain, filepath.Join(t.TempDir(), "none.py"), "keys")
	require.ErrorContains(t, err, "FileNotFoundError")
	_, err = p.Call(Plain, file, "keys", parse(t, `{}`))
	require.NoError(t, err)
}

// fifo returns the path of a pipe, and its end for reading.
func fifo(t *testing.T) (path string, reader *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	return path, reader
}

// TestProgramsThatKill: a program that kills its parent is wrong if it cannot go on, and the runner
// stays. On Linux, the runner is the first process of a PID namespace, so that programs see no
// process outside. The test kills nothing else: without the namespace, it would hit this machine.
func TestProgramsThatKill(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	before, err := p.Call(Plain, file, "process", parse(t, `{}`))
	require.NoError(t, err)
	if runtime.GOOS == "linux" && !p.Unsandboxed {
		require.EqualValues(t, 1, before)
	}
	for after, right := range map[string]float64{"return 2": 1, "raise ValueError": 0} {
		v, err := p.Call(Plain, file, "programs", []ordered.Value{"import posix\ndef f(x):\n  posix.kill(posix.getppid(), 9)\n  " + after})
		require.NoError(t, err, after)
		require.InDelta(t, right, v, 0, after)
	}
	v, err := p.Call(Plain, file, "drawn", parse(t, `{}`))
	require.NoError(t, err)
	require.InDelta(t, 0.8444218515250481, v, 0)
	v, err = p.Call(Plain, file, "drawn", parse(t, `{}`))
	require.NoError(t, err)
	require.NotEqual(t, 0.8444218515250481, v, "the runner was started again")
}

// TestProcessesOfPrograms: the processes that a program has started end with it, whether it ends by
// itself or is too slow.
func TestProcessesOfPrograms(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	open := &Process{Unsandboxed: true}
	t.Cleanup(open.Close)
	for _, p := range []*Process{p, open} {
		checkProcessesOfPrograms(t, p, file)
	}
}

func checkProcessesOfPrograms(t *testing.T, p *Process, file string) {
	t.Helper()
	const fork = "import posix\nfd = posix.open(%q, posix.O_WRONLY)\nif not posix.fork():\n  %s\n  while True: pass\ndef f(x):\n  %s\n  return 2"
	for _, c := range []struct {
		child, parent string
		right         float64
	}{
		{"pass", "pass", 1},
		{"pass", "while True: pass", 0},
		{"posix.setsid()", "pass", 1},
		{"posix.setsid()", "while True: pass", 0},
		{"posix.setsid()\n  posix.fork()\n  posix.setpgid(0, 0)", "posix.kill(posix.getppid(), 9)", 1},
	} {
		if c.child != "pass" && runtime.GOOS != "linux" {
			continue // only Linux finds processes that have left the group
		}
		path, open := fifo(t)
		v, err := p.Call(Plain, file, "programs", []ordered.Value{fmt.Sprintf(fork, path, c.child, c.parent)})
		require.NoError(t, err)
		require.NoError(t, open.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, err = open.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "%+v: a process has the pipe open", c)
		require.InDelta(t, c.right, v, 0, "%+v", c)
	}
}

// TestProcessStartsAgain: a function that ends the process, or has no end, does not concern later
// calls.
func TestProcessStartsAgain(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	_, err := p.Call(Plain, file, "dies", parse(t, `{}`))
	require.ErrorContains(t, err, "python3 ended: exit status 3")
	v, err := p.Call(Plain, file, "keys", parse(t, `{"a": 1}`))
	require.NoError(t, err)
	require.Equal(t, parse(t, `["a"]`), v)
	p.timeout = 500 * time.Millisecond
	_, err = p.Call(Plain, file, "endless", parse(t, `{}`))
	require.ErrorContains(t, err, "longer than 500ms")
	p.timeout = 0
	_, err = p.Call(Plain, file, "keys", parse(t, `{}`))
	require.NoError(t, err)
	p.Close()
	_, err = p.Call(Plain, file, "keys", parse(t, `{}`))
	require.ErrorContains(t, err, "was closed")
}

// TestProcessEndsWithIngot: python3 ends when nobody can send it requests any more, also within a
// call.
func TestProcessEndsWithIngot(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	row := ordered.NewObject()
	row.Set("fifo", path)
	ended := make(chan error)
	go func() {
		_, err := p.Call(Plain, file, "waits", row)
		ended <- err
	}()
	called, err := os.Open(path) // waits for the function
	require.NoError(t, err)
	defer called.Close()
	require.NoError(t, p.in.Close())
	require.ErrorContains(t, <-ended, "python3 ended: exit status 0")
}

// TestFunctionsHaveNoNetwork checks that a function cannot connect to a server that another process
// on this machine runs.
func TestFunctionsHaveNoNetwork(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	if p.Unsandboxed {
		t.Skip("functions without network are not tested: this system has no network namespaces for this user")
	}
	row := ordered.NewObject()
	row.Set("port", int64(listen(t)))
	_, err := p.Call(Plain, file, "connect", row)
	require.ErrorContains(t, err, "unreachable")
	open := &Process{Unsandboxed: true}
	defer open.Close()
	_, err = open.Call(Plain, file, "connect", row)
	require.NoError(t, err)
}

// TestTrial: calls of a trial change nothing in the process. One that gives no result is no error.
func TestTrial(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	if p.Unsandboxed {
		require.NoError(t, p.Trial(func() error { panic("a trial could have effects on the network") }))
		t.Skip("trials without network are not tested: this system has no network namespaces for this user")
	}
	p.timeout = 12 * time.Second
	try := func(name string) (v ordered.Value, err error) {
		err = p.Trial(func() (err error) {
			v, err = p.Call(Plain, file, name, parse(t, `{}`))
			return err
		})
		return v, err
	}
	for range 2 {
		v, err := try("count")
		require.NoError(t, err)
		require.Equal(t, int64(1), v)
		v, err = try("drawn")
		require.NoError(t, err)
		require.Equal(t, 0.8444218515250481, v)
	}
	_, err := try("ends")
	require.ErrorContains(t, err, "run the Python function ends of "+file+": SystemExit: over")
	for _, name := range []string{"dies", "endless"} {
		_, err = try(name)
		require.NoError(t, err, name)
	}
	for want := range 3 {
		v, err := p.Call(Plain, file, "count", parse(t, `{}`))
		require.NoError(t, err)
		require.Equal(t, int64(want+1), v)
	}
	v, err := p.Call(Plain, file, "drawn", parse(t, `{}`))
	require.NoError(t, err)
	require.Equal(t, 0.8444218515250481, v)
}

func TestFind(t *testing.T) {
	t.Parallel()
	p, file := start(t)
	require.NoError(t, p.Find(file, "Text.of"))
	require.ErrorContains(t, p.Find(file, "Text.off"), "has no attribute 'off'")
	other := filepath.Join(filepath.Dir(file), "other.py")
	require.NoError(t, os.WriteFile(other, []byte("import no_such_package\n"), 0o600))
	require.ErrorContains(t, p.Find(other, "f"), "run the Python function f of "+other+": ModuleNotFoundError: No module named 'no_such_package'")
	v, err := p.Call(Plain, file, "drawn", parse(t, `{}`))
	require.NoError(t, err)
	require.Equal(t, 0.8444218515250481, v, "the generator begins at the first call")
}
