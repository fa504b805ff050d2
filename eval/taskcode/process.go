// Package taskcode runs the Python functions of evaluation tasks, which are programs of other
// people, with the user's python3. They run in a process of their own, with limits of time and
// memory, and without network unless the user allows it. They can read and write the user's files.
package taskcode

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/ingot-run/ingot/internal/ordered"
)

//go:embed runner.py
var runner string

// callTime is the maximum time of a call. It includes the import of the function's file.
const callTime = 2 * time.Minute

// maxAnswer is the maximum size of a function's result in bytes.
const maxAnswer = 1 << 30

// Kind tells the process what a function gets.
type Kind string

// The kinds.
const (
	Plain     Kind = "call"      // the arguments as they are
	Rows      Kind = "rows"      // a data set
	Results   Kind = "results"   // a row and what the model gave for it
	Filter    Kind = "filter"    // the responses to a row or the only one, the row, and settings of the filter
	Metric    Kind = "metric"    // a target, a response, and settings of the metric
	Aggregate Kind = "aggregate" // values of rows: those that the kinds Results and Metric return as items

	find Kind = "find" // nothing: it is only looked for
)

// Process is a Python process that runs functions of tasks. It is safe for
// concurrent use; calls run one after another. If the process ends during a call, the next call
// starts it again.
type Process struct {
	Unsandboxed bool // functions may use the network

	mu      sync.Mutex
	cmd     *exec.Cmd // nil while python3 does not run
	in      io.WriteCloser
	out     *bufio.Scanner
	refused error // why python3 cannot start; later calls return it
	timeout time.Duration
	trial   bool // calls are those of a trial
	unknown bool // a call of the trial had no result
}

// Call calls a function of a Python file. name may have the form class.method.
func (p *Process) Call(kind Kind, file, name string, args ...ordered.Value) (ordered.Value, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ensure(); err != nil {
		return nil, err
	}
	v, err := p.call(kind, file, name, args)
	if err != nil {
		return nil, fmt.Errorf("run the Python function %s of %s: %w", name, file, err)
	}
	return v, nil
}

// Find imports a Python file and returns an error if it has no function of this name.
func (p *Process) Find(file, name string) error {
	_, err := p.Call(find, file, name)
	return err
}

// trialShare is the share of the time limit that calls in a trial have.
const trialShare = 6

// Trial calls try, whose calls of functions run in copies of the process, so that they change
// nothing in it. It returns the error of try. If a call in it takes too long or ends its copy,
// Trial returns nil. It does not call try if functions may use the network, where their calls could
// have effects.
func (p *Process) Trial(try func() error) error {
	if p.Unsandboxed {
		return nil
	}
	p.setTrial(true)
	err := try()
	if p.setTrial(false) {
		return nil
	}
	return err
}

// setTrial begins or ends a trial. It reports whether a call in the trial that ends had no result.
func (p *Process) setTrial(on bool) (unknown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	unknown = p.unknown
	p.trial, p.unknown = on, false
	return unknown
}

func (p *Process) call(kind Kind, file, name string, args []ordered.Value) (ordered.Value, error) {
	request := ordered.NewObject()
	request.Set("kind", string(kind))
	request.Set("file", file)
	request.Set("function", name)
	request.Set("args", args)
	limit := callTime
	if p.timeout > 0 {
		limit = p.timeout
	}
	if p.trial {
		request.Set("trial", (limit / trialShare).Seconds())
	}
	killed := make(chan struct{})
	slow := time.AfterFunc(limit, func() {
		kill(p.cmd)
		close(killed)
	})
	_, err := p.in.Write(append(appendJSON(nil, request), '\n'))
	if err == nil && !p.out.Scan() {
		err = cmp.Or(p.out.Err(), io.EOF)
	}
	switch {
	case !slow.Stop():
		<-killed
		p.end()
		return nil, fmt.Errorf("it took longer than %v", limit)
	case errors.Is(err, bufio.ErrTooLong):
		p.end()
		return nil, fmt.Errorf("its result is larger than %d bytes", maxAnswer)
	case err != nil:
		return nil, fmt.Errorf("python3 ended: %v", p.end())
	}
	v, err := value(p.out.Bytes())
	p.unknown = p.unknown || errors.Is(err, errNoResult)
	return v, err
}

var errNoResult = errors.New("it has no result")

// value reads the answer of the process.
func value(line []byte) (ordered.Value, error) {
	v, err := ordered.ParseJSON(line)
	answer, ok := v.(*ordered.Object)
	if err != nil || !ok {
		return nil, fmt.Errorf("python3 answered %.60q", line)
	}
	if message, ok := answer.Get("error"); ok {
		return nil, fmt.Errorf("%v", message)
	}
	v, ok = answer.Get("value")
	if !ok {
		return nil, errNoResult
	}
	return v, nil
}

// Start starts python3 if it does not run yet.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ensure()
}

func (p *Process) ensure() error {
	if p.cmd == nil && p.refused == nil {
		p.refused = p.start()
	}
	return p.refused
}

func (p *Process) start() error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return errors.New("python3 is not installed, or not in PATH")
	}
	cmd := exec.Command(python, "-B", "-c", runner) //nolint:noctx // calls have a time limit
	if !p.Unsandboxed {
		if cmd, err = sandboxed(cmd); err != nil {
			return err
		}
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // for kill
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start python3%s: %w", withoutNetwork(p.Unsandboxed), err)
	}
	p.cmd, p.in, p.out = cmd, in, bufio.NewScanner(out)
	p.out.Buffer(nil, maxAnswer)
	return nil
}

func withoutNetwork(unsandboxed bool) string {
	if unsandboxed {
		return ""
	}
	return " without network (--trust-task-code=unsandboxed starts it with network)"
}

// Close ends the process. Later calls fail.
func (p *Process) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = errors.New("the process for Python functions was closed")
	if p.cmd != nil {
		p.end()
	}
}

// end ends the process and those that it has started, and returns how it ended.
func (p *Process) end() *os.ProcessState {
	kill(p.cmd)
	p.cmd.Wait() //nolint:errcheck // its state is returned
	state := p.cmd.ProcessState
	p.cmd = nil
	return state
}

// kill kills a process that was not waited for yet, and its process group.
func kill(cmd *exec.Cmd) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) //nolint:errcheck // all may have ended
}

// appendJSON appends a value as JSON. Objects keep the order of their keys, which functions can
// see.
func appendJSON(to []byte, v ordered.Value) []byte {
	switch v := v.(type) {
	case *ordered.Object:
		to = append(to, '{')
		first := true
		for key, each := range v.All() {
			if !first {
				to = append(to, ',')
			}
			first = false
			to = append(appendJSON(to, key), ':')
			to = appendJSON(to, each)
		}
		return append(to, '}')
	case []ordered.Value:
		to = append(to, '[')
		for i, each := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendJSON(to, each)
		}
		return append(to, ']')
	case float64: // 1.0 stays a number with a point
		text, err := json.Marshal(v)
		if err != nil {
			return append(to, "null"...)
		}
		if isWhole(text) {
			text = append(text, ".0"...)
		}
		return append(to, text...)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return append(to, "null"...)
	}
	return append(to, text...)
}

// isWhole reports whether a number has neither a point nor an exponent.
func isWhole(number []byte) bool {
	for _, c := range number {
		if c == '.' || c == 'e' {
			return false
		}
	}
	return true
}
