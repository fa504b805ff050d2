package schedule_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/eval/schedule"
	"github.com/ingot-run/ingot/internal/openfiles"
)

func read(t *testing.T, text string) ([]schedule.Entry, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "schedule.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	list, err := schedule.Read(path)
	openfiles.Require(t, 0, path)
	return list, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	list, err := read(t, `
entries:
- name: nightly
  cron: "30 2 * * 1-5"
  timezone: Europe/Berlin
  tasks: [tasks/a.yaml, /etc/b.yaml]
  model: glm
  limit: 100
  chat: true
  missed: skip
  deadline: 6h
  gate: {baseline: production, margin: 0.02}
  notify: {on: [fail, inconclusive], webhook: "https://example.org/hook", command: [page, eval]}
- name: hourly
  cron: "@hourly"
  tasks: [a.yaml]
`)
	require.NoError(t, err)
	require.Len(t, list, 2)
	e := list[0]
	require.Equal(t, "a.yaml", filepath.Base(e.Tasks[0]))
	require.True(t, filepath.IsAbs(e.Tasks[0]), "the task's path was made absolute")
	require.Equal(t, "/etc/b.yaml", e.Tasks[1])
	require.Equal(t, 6*time.Hour, e.Deadline)
	require.InDelta(t, 0.02, *e.Gate.Margin, 0)
	// Friday, 2 January 2026, after half past two in Berlin (UTC+1): the next time is on Monday.
	require.Equal(t, time.Date(2026, 1, 5, 1, 30, 0, 0, time.UTC), e.Next(time.Date(2026, 1, 2, 1, 30, 0, 0, time.UTC)).UTC())
	require.Equal(t, time.Date(2026, 7, 6, 0, 30, 0, 0, time.UTC), e.Next(time.Date(2026, 7, 3, 1, 30, 0, 0, time.UTC)).UTC(), "summer time")
	require.Equal(t, schedule.RunLatest, list[1].Missed)
	require.Equal(t, schedule.DefaultDeadline, list[1].Deadline)
	require.Equal(t, "default", list[1].Model)
}

// TestMargins: a margin may be 0 or 1.
func TestMargins(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"0": 0, "1": 1} {
		list, err := read(t, "entries: [{name: a, cron: '0 2 * * *', tasks: [t.yaml], gate: {baseline: a, margin: "+text+"}}]")
		require.NoError(t, err)
		require.InDelta(t, want, *list[0].Gate.Margin, 0)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	entry := func(fields string) string {
		return "entries: [{name: a, cron: '0 2 * * *', tasks: [t.yaml], " + fields + "}]"
	}
	for name, c := range map[string]struct{ text, says string }{
		"empty":             {"", "it has no entries"},
		"unknown field":     {entry("webhook: x"), "field webhook not found"},
		"two of a name":     {"entries:\n- &a {name: a, cron: '0 2 * * *', tasks: [t]}\n- *a\n", `two entries have the name "a"`},
		"no name":           {"entries: [{cron: '0 2 * * *', tasks: [t]}]", "entry 1: name \"\": a name has"},
		"name with a slash": {"entries: [{name: a/b, cron: '0 2 * * *', tasks: [t]}]", "a name has up to 64"},
		"no tasks":          {"entries: [{name: a, cron: '0 2 * * *'}]", "tasks: the list is empty"},
		"no cron":           {"entries: [{name: a, tasks: [t]}]", "cron: \"\""},
		"seconds":           {"entries: [{name: a, cron: '0 0 2 * * *', tasks: [t]}]", "cron: "},
		"@every":            {"entries: [{name: a, cron: '@every 1h', tasks: [t]}]", "use times of day"},
		"time zone in cron": {"entries: [{name: a, cron: 'CRON_TZ=UTC 0 2 * * *', tasks: [t]}]", "give it in the field timezone"},
		"no such day":       {"entries: [{name: a, cron: '0 2 31 2 *', tasks: [t]}]", "a time that never comes"},
		"time zone":         {entry("timezone: Mars/Olympus"), "use a name such as Europe/Berlin"},
		"local time zone":   {entry("timezone: Local"), "use a name such as Europe/Berlin"},
		"missed":            {entry("missed: later"), "use latest, all or skip"},
		"model":             {entry("model: 'a b'"), "model name"},
		"judge":             {entry("judge: 'a b'"), "model name"},
		"limit":             {entry("limit: -1"), "is negative"},
		"deadline":          {entry("deadline: -1h"), "is negative"},
		"baseline":          {entry("gate: {baseline: ''}"), "gate: baseline"},
		"margin":            {entry("gate: {baseline: a, margin: 2}"), "not from 0 to 1"},
		"margin of NaN":     {entry("gate: {baseline: a, margin: .nan}"), "not from 0 to 1"},
		"margin above one":  {entry("gate: {baseline: a, margin: 1.01}"), "not from 0 to 1"},
		"negative margin":   {entry("gate: {baseline: a, margin: -0.01}"), "not from 0 to 1"},
		"address of nobody": {entry("notify: {webhook: 'https:///hook'}"), "must be an http or https address"},
		"nobody to notify":  {entry("notify: {on: [fail]}"), "webhook and command are missing"},
		"broken address":    {entry("notify: {webhook: 'http://[::1'}"), "must be an http or https address"},
		"not YAML":          {"entries: [", "schedule.yaml: yaml: "},
		"second of two":     {"entries:\n- {name: a, cron: '0 2 * * *', tasks: [t]}\n- {name: b, cron: '0 2 * * *'}\n", "entry 2: tasks: the list is empty"},
		"address":           {entry("notify: {webhook: 'file:///etc/passwd'}"), "must be an http or https address"},
		"verdict":           {entry("notify: {command: [a], on: [failed]}"), `"failed" is not a verdict`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, c.text)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := schedule.Read("/dev/zero")
	require.ErrorContains(t, err, "read the schedule: /dev/zero is larger than 1 MiB")
	_, err = read(t, entry("deadline: 1h")+strings.Repeat("#", 1<<20-len(entry("deadline: 1h"))))
	require.NoError(t, err)
}
