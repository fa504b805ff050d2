package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/openai"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"default", "glm-4.7-flash", "org/Model_1.5@q4", "7b"} {
		require.NoError(t, CheckAlias(s))
	}
	for _, s := range []string{"", "-x", "a:b", "a b", "a{b}", strings.Repeat("x", 129), "é"} {
		require.ErrorContains(t, CheckAlias(s), "model name")
	}
	for _, s := range []string{"01J9ZQ", "nightly-2025.01.02", "local"} {
		require.NoError(t, CheckBatch(s))
	}
	for _, s := range []string{"", "-x", "a/b", "a:b", "a}", strings.Repeat("x", 129)} {
		require.ErrorContains(t, CheckBatch(s), "batch id")
	}
	for p := range Priorities() {
		got, err := ParsePriority(string(p))
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	_, err := ParsePriority("high")
	require.ErrorContains(t, err, "critical, default or bulk")
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	j := &Job{
		Batch: "b", Line: 7, Sum: "0badcafe", CustomID: "<x>", Endpoint: openai.Chat, Body: []byte(`{"a":"<b>"}`), EnqueuedMS: 5, TimeoutMS: 6000, MaxAttempts: 7,
	}
	payload, err := j.Encode()
	require.NoError(t, err)
	require.Contains(t, string(payload), `{"a":"<b>"}`, "the body travels as it stood in the file")
	got, err := Decode(payload)
	require.NoError(t, err)
	require.Equal(t, j, got)
	for _, bad := range []string{``, `{}`, `[]`, `{"batch":"b","line":0,"max_attempts":1}`, `{"batch":"a:b","line":1,"max_attempts":1}`, `{"batch":"b","line":1}`} {
		_, err := Decode([]byte(bad))
		require.Error(t, err, bad)
	}
}

// A payload is read as encoding/json reads it, however it is written.
func TestPayloadsAreReadAsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{
			`1`, `7000`, `-1`, `2.0`, `1e3`, `9223372036854775807`, `99999999999999999999`, `"0badcafe"`, `"0123456789abcdef"`, `""`, `"\u0062"`, `"é"`,
			`"/v1/completions"`, `null`, `true`, `{}`, `{"channel":"c","seed":5}`, `{"prompt":[1, 2,{"a":"}"}]}`, `[]`,
		})
		var text strings.Builder
		text.WriteString(`{"batch":"b","line":1,"sum":"0badcafe","custom_id":"x","url":"/v1/completions","body":{},"enqueued_ms":1,"timeout_ms":1000,"max_attempts":1`)
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			name := rapid.SampledFrom([]string{
				"batch", "line", "sum", "record", "file", "custom_id", "url", "body", "enqueued_ms", "timeout_ms", "max_attempts", "deadline_ms", "live", "model_name", "other", "Line",
			}).Draw(t, "name")
			fmt.Fprintf(&text, `, %q : %s`, name, value.Draw(t, "value"))
		}
		text.WriteString("}")
		want := new(Job)
		err := json.Unmarshal([]byte(text.String()), want)
		if err == nil {
			err = want.check()
		}
		got, decoded := Decode([]byte(text.String()))
		require.Equal(t, err == nil, decoded == nil, "%v, %v", err, decoded)
		if err == nil {
			require.Equal(t, want, got)
		}
	})
}

// Payloads of files are read without encoding/json, which takes several times as long.
func TestPayloadsAreReadFast(t *testing.T) {
	t.Parallel()
	j := Job{
		Batch: "b", Line: 7, Sum: "0badcafe", CustomID: "x", Endpoint: openai.Chat, Body: []byte(`{"a":"<b>"}`), EnqueuedMS: 5, TimeoutMS: 6000, MaxAttempts: 7,
	}
	all := j
	all.RecordSum, all.File, all.DeadlineMS, all.Alias = "0123456789abcdef", "fedcba9876543210", 9, "other"
	for _, want := range []Job{j, all} {
		payload, err := want.Encode()
		require.NoError(t, err)
		var got Job
		require.True(t, got.read(payload), "%s", payload)
		require.Equal(t, want, got)
	}
}

func TestSeedsFollowFromBatchAndLine(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	for _, batch := range []string{"a", "b"} {
		for line := range 100 {
			seed := (&Job{Batch: batch, Line: line}).defaultSeed()
			require.Equal(t, seed, (&Job{Batch: batch, Line: line}).defaultSeed())
			require.Equal(t, seed, int64(float64(seed)), "every JSON reader keeps it exact")
			require.GreaterOrEqual(t, seed, int64(0))
			seen[seed] = true
		}
	}
	require.Len(t, seen, 200)

	r, err := openai.ParseRequest(openai.Completions, []byte(`{"prompt":["a","b"]}`))
	require.NoError(t, err)
	require.Equal(t, uint64(testJob.defaultSeed())+1, testJob.Generation(r, 1).Sampling.Seed)
	require.Equal(t, time.UnixMilli(testJob.EnqueuedMS), testJob.Generation(r, 1).Date)
}

// recorder keeps what it gets, and fails.
type recorder struct {
	Recorder
	saved  []byte
	result Result
}

var errRecorder = errors.New("the queue is gone")

func (r *recorder) Record(_ context.Context, result Result) (bool, error) {
	r.result = result
	return true, errRecorder
}

func (r *recorder) Save(_ context.Context, checkpoint []byte) error {
	r.saved = checkpoint
	return errRecorder
}

// A delivery writes to its queue, and returns its errors.
func TestDeliveriesWriteToTheirQueue(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	d := &Delivery{Recorder: r}
	require.ErrorIs(t, d.Save(t.Context(), []byte("half")), errRecorder)
	first, err := d.Record(t.Context(), Result{Line: 7})
	require.ErrorIs(t, err, errRecorder)
	require.True(t, first)
	require.Equal(t, "half", string(r.saved))
	require.Equal(t, 7, r.result.Line)
}

// A file is identified by the start of its checksum.
func TestFileIDs(t *testing.T) {
	t.Parallel()
	for sum, want := range map[string]string{"": "", "abc": "abc", "0123456789abcdef": "0123456789abcdef", "0123456789abcdef0": "0123456789abcdef"} {
		require.Equal(t, want, FileID(sum))
	}
}

// A job that cannot be encoded has no result of an expired row.
func TestExpiredJobsThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	_, err := Expired(&Job{Batch: "b", Line: 1, Sum: "00000000", Body: []byte("{")})
	require.Error(t, err)
}

// Functions that a worker does not set do nothing, and let rows begin. Those that it sets stay.
func TestDefaultsOfAWorker(t *testing.T) {
	t.Parallel()
	var o ServeOptions
	o.Defaults()
	require.Empty(t, o.Pin())
	release, ok := o.Admit(t.Context(), &Delivery{}, false)
	require.True(t, ok)
	release()
	o.Refused(t.Context(), &Delivery{}, ErrRecorded)
	require.Zero(t, o.Describe())

	refused := false
	o = ServeOptions{
		Pin:      func() string { return "p" },
		Admit:    func(context.Context, *Delivery, bool) (func(), bool) { return nil, false },
		Refused:  func(context.Context, *Delivery, error) { refused = true },
		Describe: func() Worker { return Worker{Name: "n"} },
	}
	o.Defaults()
	_, ok = o.Admit(t.Context(), nil, true)
	o.Refused(t.Context(), nil, nil)
	require.Equal(t, []any{"p", false, true, "n"}, []any{o.Pin(), ok, refused, o.Describe().Name})
}

// The pauses between attempts double up to a minute.
func TestPausesBetweenAttempts(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{-1: time.Second, 0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute, 1000: time.Minute} {
		require.Equal(t, want, RetryDelay(n), n)
	}
}

// A worker serves its aliases.
func TestAliasesOfAWorker(t *testing.T) {
	t.Parallel()
	w := Worker{Aliases: []string{"a", "b"}}
	for alias, want := range map[string]bool{"a": true, "b": true, "c": false, "": false} {
		require.Equal(t, want, w.Serves(alias), alias)
	}
}

// A row that is passed on waits for workers with a longer context, and counts no attempt.
func TestRowsThatArePassedOn(t *testing.T) {
	t.Parallel()
	short := errors.New("too short")
	o := PassOn(4096, short)
	require.Equal(t, Outcome{Kind: KindPassOn, After: time.Hour, Context: 4096, Err: short}, o)
	require.True(t, o.Uncounted())
}

// The queues of a model are those of batches, and the one of clients that wait.
func TestPrioritiesOfQueues(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Priority{"interactive", "critical", "default", "bulk"}, AllPriorities())
}

// A worker's record has what the queue knows of it. A worker that loads its model serves nothing
// yet.
func TestRecordsOfAWorker(t *testing.T) {
	t.Parallel()
	began := time.Now()
	o := ServeOptions{Alias: "m", Concurrency: 2, Context: 3, Describe: func() Worker { return Worker{Name: "n", Rows: 9} }}
	require.Equal(t, Worker{ID: "i", Name: "n", Aliases: []string{"m"}, Started: began, Rows: 4, Concurrency: 2, Context: 3}, o.Record("i", began, 4))
	o.Describe = func() Worker { return Worker{Loading: "m"} }
	require.Equal(t, []string{}, o.Record("i", began, 0).Aliases)
}
