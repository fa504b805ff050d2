// Package schedule runs evaluations at set times. A schedule is a file of entries; an entry names
// an evaluation and its times. A slot is one scheduled time of an entry. Any number of schedulers,
// on several machines, may serve one schedule: asynq's PeriodicTaskManager wakes them, and they
// share a table of slots in Redis. Each slot is added to the table once, is run by the scheduler to
// which asynq gives its task, and ends with one outcome.
package schedule

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/queue"
)

// MissedPolicy selects which missed slots are run later. A slot is missed if no scheduler was
// running at its time.
type MissedPolicy string

// The values of MissedPolicy.
const (
	RunLatest MissedPolicy = "latest" // run the newest missed slot
	RunAll    MissedPolicy = "all"    // run all missed slots, one after another
	Skip      MissedPolicy = "skip"   // run no missed slot
)

// Entry is an evaluation that runs at set times.
type Entry struct {
	Name     string       `yaml:"name" json:"name"`
	Cron     string       `yaml:"cron" json:"cron"`             // minute, hour, day of the month, month, day of the week
	TimeZone string       `yaml:"timezone" json:"timezone"`     // an IANA name; UTC if empty
	Tasks    []string     `yaml:"tasks" json:"tasks"`           // task files; relative paths start at the schedule's folder
	Model    string       `yaml:"model" json:"model"`           // alias of the workers that answer
	Judge    string       `yaml:"judge" json:"judge,omitempty"` // alias of the workers that score answers to tasks of type judge
	Limit    int          `yaml:"limit" json:"limit,omitempty"`
	Chat     bool         `yaml:"chat" json:"chat,omitempty"`
	Missed   MissedPolicy `yaml:"missed" json:"missed"`

	// Deadline is the maximum time of a run. A run that takes longer ends with the answers that it
	// has. 0 means DefaultDeadline.
	Deadline time.Duration `yaml:"deadline" json:"deadline"`

	Gate   *Gate   `yaml:"gate" json:"gate,omitempty"`
	Notify *Notify `yaml:"notify" json:"-"` // not stored in Redis, since an address may hold a secret

	times cron.Schedule
}

// DefaultDeadline is the deadline of an entry that sets none.
const DefaultDeadline = 24 * time.Hour

// Gate is the comparison that judges a run.
type Gate struct {
	Baseline string   `yaml:"baseline" json:"baseline"` // name of a pinned run
	Margin   *float64 `yaml:"margin" json:"margin,omitempty"`
}

// Notify names the webhook and the command that are informed of verdicts.
type Notify struct {
	On      []Verdict `yaml:"on"` // verdicts to notify of; empty means Fail and Error
	Webhook string    `yaml:"webhook"`
	Command []string  `yaml:"command"`
}

// Verdict is the outcome of a run.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"
	Inconclusive Verdict = "inconclusive"
	Ungated      Verdict = "done"  // the entry has no gate
	Error        Verdict = "error" // the evaluation or its gate could not be run
)

// wants reports whether a notice of verdict v is to be sent. For a nil n, none is sent.
func (n *Notify) wants(v Verdict) bool {
	if n == nil {
		return false
	}
	if len(n.On) == 0 {
		return v == Fail || v == Error
	}
	return slices.Contains(n.On, v)
}

// Read reads the entries of a schedule.
func Read(path string) ([]Entry, error) {
	text, err := readLimited(path)
	if err != nil {
		return nil, fmt.Errorf("read the schedule: %w", err)
	}
	var file struct {
		Entries []Entry `yaml:"entries"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the schedule %s: %w", path, err)
	}
	if len(file.Entries) == 0 { // for example a file that is just being written
		return nil, fmt.Errorf("read the schedule %s: it has no entries: list them under the key \"entries\"", path)
	}
	names := map[string]bool{}
	for i := range file.Entries {
		e := &file.Entries[i]
		if err := e.complete(filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("read the schedule %s: entry %d: %w", path, i+1, err)
		}
		if names[e.Name] {
			return nil, fmt.Errorf("read the schedule %s: two entries have the name %q: rename one of them", path, e.Name)
		}
		names[e.Name] = true
	}
	return file.Entries, nil
}

const maxFile = 1 << 20

// readLimited reads a file. It stops after maxFile bytes, since the file may be a device without an
// end.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than 1 MiB: give a YAML file of entries", path)
	}
	return text, err
}

func (e *Entry) complete(folder string) (err error) {
	if err := eval.CheckName("name", e.Name); err != nil {
		return err
	}
	e.TimeZone, e.Missed = cmp.Or(e.TimeZone, "UTC"), cmp.Or(e.Missed, RunLatest)
	e.Deadline, e.Model = cmp.Or(e.Deadline, DefaultDeadline), cmp.Or(e.Model, queue.DefaultAlias)
	switch {
	case !slices.Contains([]MissedPolicy{RunLatest, RunAll, Skip}, e.Missed):
		return fmt.Errorf("missed: %q is not known: use %s, %s or %s", e.Missed, RunLatest, RunAll, Skip)
	case len(e.Tasks) == 0:
		return errors.New("tasks: the list is empty: name at least one task file")
	case e.Deadline < 0:
		return fmt.Errorf("deadline: %v is negative: use a time such as 8h", e.Deadline)
	case e.Limit < 0:
		return fmt.Errorf("limit: %d is negative: use 0 for all rows", e.Limit)
	}
	for _, alias := range []string{e.Model, cmp.Or(e.Judge, e.Model)} {
		if err := queue.CheckAlias(alias); err != nil {
			return err
		}
	}
	for i, path := range e.Tasks {
		if !filepath.IsAbs(path) {
			e.Tasks[i] = filepath.Join(folder, path)
		}
	}
	if e.times, err = parse(e.Cron, e.TimeZone); err != nil {
		return err
	}
	if e.Gate != nil {
		if err := eval.CheckName("baseline", e.Gate.Baseline); err != nil {
			return fmt.Errorf("gate: %w", err)
		}
		if m := e.Gate.Margin; m != nil && !(*m >= 0 && *m <= 1) { // NaN is neither
			return fmt.Errorf("gate: margin %v is not from 0 to 1", *m)
		}
	}
	return e.Notify.check()
}

func (n *Notify) check() error {
	if n == nil {
		return nil
	}
	if n.Webhook == "" && len(n.Command) == 0 {
		return errors.New("notify: webhook and command are missing: give one of them")
	}
	if n.Webhook != "" {
		if u, err := url.Parse(n.Webhook); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return errors.New("notify: webhook must be an http or https address")
		}
	}
	known := []Verdict{Pass, Fail, Inconclusive, Ungated, Error}
	for _, v := range n.On {
		if !slices.Contains(known, v) {
			return fmt.Errorf("notify: on: %q is not a verdict: use pass, fail, inconclusive, done or error", v)
		}
	}
	return nil
}

func parse(spec, zone string) (cron.Schedule, error) {
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return nil, fmt.Errorf("timezone: %q is not known: use a name such as Europe/Berlin", zone)
	}
	switch {
	case strings.Contains(spec, "TZ="):
		return nil, fmt.Errorf("cron: %q contains a time zone: give it in the field timezone", spec)
	case strings.HasPrefix(spec, "@every"):
		return nil, fmt.Errorf("cron: %q counts from the start of each scheduler, so schedulers would disagree: use times of day, such as 0 2 * * *", spec)
	}
	times, err := cron.ParseStandard("CRON_TZ=" + zone + " " + spec)
	if err != nil {
		return nil, fmt.Errorf("cron: %q: %w", spec, err)
	}
	if times.Next(time.Now()).IsZero() {
		return nil, fmt.Errorf("cron: %q is a time that never comes: use a date that exists", spec)
	}
	return times, nil
}

// spec returns the cron expression with its time zone. Two entries with the same spec have the same
// times.
func (e *Entry) spec() string { return "CRON_TZ=" + e.TimeZone + " " + e.Cron }

// Next returns the entry's first scheduled time after t.
func (e *Entry) Next(t time.Time) time.Time { return e.times.Next(t) }

// onTime is the maximum delay of a slot with the policy Skip. A slot that would start later counts
// as missed.
const onTime = 5 * time.Minute

// maxDue is the maximum number of slots that are added at once. Older slots are dropped.
const maxDue = 1000

// due returns the entry's slots in the interval (last, now], the oldest first. The state of a slot
// is Waiting if it must be run, otherwise Missed.
func (e *Entry) due(last, now time.Time) []slot {
	var list []slot
	for t := e.times.Next(last); !t.IsZero() && !t.After(now); t = e.times.Next(t) {
		list = append(list, slot{t.UTC(), Missed})
		if len(list) > maxDue {
			list = list[1:]
		}
	}
	for i := range list {
		newest := i == len(list)-1
		if e.Missed == RunAll || e.Missed == RunLatest && newest || e.Missed == Skip && now.Sub(list[i].at) <= onTime {
			list[i].state = Waiting
		}
	}
	return list
}
