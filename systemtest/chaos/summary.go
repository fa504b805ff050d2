package main

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// summarise prints totals of the batches and of the workers' logs. It records a fault for each log
// message that mentions a panic.
func (r *run) summarise(batches []string) error {
	attempts := map[int]int{}
	for _, b := range batches {
		o, err := readOutput(r.results(b), b)
		if err != nil {
			return err
		}
		for n, rows := range o.attempts {
			attempts[n] += rows
		}
	}
	r.journal.note("%d batches of %d rows; answered rows by number of deliveries: %v", len(batches), r.undisturbed.counts.Total, attempts)
	starts, drains, messages := 0, []time.Duration{}, map[string]int{}
	for _, w := range r.workers {
		n, times := w.history()
		starts += n
		drains = append(drains, times...)
		if err := countMessages(w.log(), messages); err != nil {
			return err
		}
	}
	ofRedis, _ := r.redis.history()
	r.journal.note("workers were started %d times, redis %d times", starts, ofRedis)
	if len(drains) > 0 {
		r.journal.note("%d workers ended after SIGTERM, the slowest %v after it", len(drains), slices.Max(drains).Round(time.Second/10))
	}
	r.journal.note("the workers logged:")
	for _, m := range slices.Sorted(maps.Keys(messages)) {
		r.journal.note("%6d × %s", messages[m], m)
		if strings.Contains(m, "panic") {
			r.journal.fault("a worker logged: %s", m)
		}
	}
	return nil
}

// countMessages counts the messages of a log by level and text up to the first colon, which
// precedes details such as the cause. Some lines are not JSON, such as the error of a command or
// the text of a crash. Their level is "-".
func countMessages(path string, messages map[string]int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct{ Level, Msg string }
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			l.Level, l.Msg = "-", strings.TrimPrefix(lines.Text(), "ingot: ")
		}
		text, _, _ := strings.Cut(l.Msg, ": ")
		messages[l.Level+" "+text]++
	}
	return lines.Err()
}
