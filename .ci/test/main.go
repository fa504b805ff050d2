// Command test runs `go test -json` with the given arguments and prints the same text as `go test`.
// At the end, it lists the skipped tests with the reasons. It exits with the status of `go test`.
//
//	go run ./.ci/test [-record FILE] ARGUMENTS OF GO TEST
//	go run ./.ci/test -skips FILE
//
// -record appends the outcome of every test to FILE. -skips prints the tests that FILE records as
// skipped, unless they passed in another run.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // set instead of Package for build output
}

// outcome says how one test ended. The file of -record has one outcome per line, as JSON.
type outcome struct {
	Action, Package, Test, Reason string
}

func main() {
	args := os.Args[1:]
	option, file := "", ""
	if len(args) >= 2 && (args[0] == "-record" || args[0] == "-skips") {
		option, file, args = args[0], args[1], args[2:]
	}
	if option == "-skips" {
		exit(0, sumUp(file))
	}
	exit(run(args, file))
}

func exit(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs go test and returns its exit status. If record is empty, outcomes are not recorded.
func run(args []string, record string) (int, error) {
	name := os.Getenv("GO")
	if name == "" {
		name = "go"
	}
	cmd := exec.Command(name, append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("run go test: %w", err)
	}
	outcomes, err := read(stdout, os.Stdout)
	if err != nil {
		return 1, errors.Join(fmt.Errorf("read the events of go test: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	printSkips(os.Stdout, outcomes)
	code := 0
	var failed *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else if err != nil {
		return 1, err
	}
	if record == "" {
		return code, nil
	}
	return code, appendTo(record, outcomes)
}

// read prints the same text as go test without -json: the output of failed tests, then a line per
// package. It returns the outcomes of the tests.
func read(events io.Reader, out io.Writer) ([]outcome, error) {
	var outcomes []outcome
	output := map[string][]string{} // output of each unfinished test, and of each package outside its tests
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return outcomes, nil
		} else if err != nil {
			return nil, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil { // not an event, such as a message of the compiler
			fmt.Fprintf(out, "%s", line)
			continue
		}
		key := e.Package + " " + e.Test
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "output":
			output[key] = append(output[key], e.Output)
		case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
			// A test has started, paused or continued, which go test does not print.
		case e.Test == "":
			printPackage(out, e, output[key])
			delete(output, key)
		default:
			text := output[key]
			delete(output, key)
			outcomes = append(outcomes, outcome{Action: e.Action, Package: e.Package, Test: e.Test, Reason: reason(e, text)})
			if e.Action == "fail" {
				fmt.Fprint(out, strings.Join(text, ""))
			}
		}
	}
}

// printPackage prints a package's own output: all of it if the package failed, otherwise its last
// line.
func printPackage(out io.Writer, e event, output []string) {
	if e.Action != "fail" && len(output) > 0 {
		output = output[len(output)-1:]
	}
	fmt.Fprint(out, strings.Join(output, ""))
}

var at = regexp.MustCompile(`^\s+\S+\.go:\d+: `)

func reason(e event, output []string) string {
	if e.Action != "skip" {
		return ""
	}
	for _, line := range slices.Backward(output) {
		if place := at.FindString(line); place != "" {
			return strings.TrimSpace(line[len(place):])
		}
	}
	return "no reason given"
}

// printSkips lists skipped tests under their reasons. Of subtests that were skipped for the same
// reason, it prints only the number.
func printSkips(out io.Writer, outcomes []outcome) {
	byReason := map[string]map[string]int{} // for each reason and test: the number of skipped subtests, or 0 if the test itself was skipped
	for _, o := range outcomes {
		if o.Action != "skip" {
			continue
		}
		if byReason[o.Reason] == nil {
			byReason[o.Reason] = map[string]int{}
		}
		_, short, _ := strings.Cut(o.Package, "/ingot/")
		test, _, isSub := strings.Cut(o.Test, "/")
		subtests := 0
		if isSub {
			subtests = 1
		}
		byReason[o.Reason][short+" "+test] += subtests
	}
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(out, "skipped: %s\n", why)
		for _, test := range slices.Sorted(maps.Keys(byReason[why])) {
			if n := byReason[why][test]; n > 0 {
				test = fmt.Sprintf("%s (subtests: %d)", test, n)
			}
			fmt.Fprintf(out, "    %s\n", test)
		}
	}
}

func appendTo(path string, outcomes []outcome) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, o := range outcomes {
		if err := enc.Encode(o); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// sumUp reads a record. It prints the tests that were skipped and never passed, and the number of
// tests for each outcome.
func sumUp(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	skipped, passed, failed := map[string]outcome{}, map[string]bool{}, map[string]bool{}
	for dec := json.NewDecoder(f); ; {
		var o outcome
		if err := dec.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		key := o.Package + " " + o.Test
		switch o.Action {
		case "skip":
			skipped[key] = o
		case "fail":
			failed[key] = true
		default:
			passed[key] = true
		}
	}
	maps.DeleteFunc(skipped, func(key string, _ outcome) bool { return passed[key] })
	printSkips(os.Stdout, slices.Collect(maps.Values(skipped)))
	fmt.Printf("%d passed, %d failed, %d skipped\n", len(passed), len(failed), len(skipped))
	return nil
}
