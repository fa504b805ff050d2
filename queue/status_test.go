package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
)

func TestLiveWorkers(t *testing.T) {
	t.Parallel()
	require.True(t, new(Worker).Live())
	require.False(t, (&Worker{Lost: time.Now()}).Live())
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, c := range []struct {
		status         Status
		ended, overdue bool
		waiting        int
	}{
		{Status{State: Enqueueing, Total: 10, Done: 3, Failed: 2, Running: 1}, false, false, 4},
		{Status{State: InProgress, Total: 3, Done: 3, Failed: 2}, false, false, 0},
		{Status{State: InProgress, Deadline: &past}, false, true, 0},
		{Status{State: Enqueueing, Deadline: &past}, false, true, 0},
		{Status{State: InProgress, Deadline: &future}, false, false, 0},
		{Status{State: Completed, Deadline: &past}, true, false, 0},
		{Status{State: Cancelled, Deadline: &past, Total: 2}, true, false, 2},
	} {
		require.Equal(t, []any{c.ended, c.overdue, c.waiting}, []any{c.status.Ended(), c.status.Overdue(), c.status.Waiting()}, "%+v", c.status)
	}
}

func TestModelsOfABatch(t *testing.T) {
	t.Parallel()
	s := Status{Alias: "m"}
	s.SetModels(nil, map[string]string{"m": "one", "n": "two"})
	require.Equal(t, []Model{{"m", "one"}}, s.Models)
	s.SetModels([]string{"n", "m", "l"}, map[string]string{"n": "two"})
	require.Equal(t, []Model{{"l", ""}, {"m", ""}, {"n", "two"}}, s.Models)
	require.Equal(t, []string{"l", "m", "n"}, s.Aliases())
}

// The speed of a batch counts failed rows, and lasts from its start to its last row.
func TestSpeedOfABatch(t *testing.T) {
	t.Parallel()
	start := time.Unix(100, 0)
	s := Status{Started: &start}
	require.Zero(t, s.Took())
	for _, r := range []Result{
		{Stats: Stats{PromptTokens: 1, CachedTokens: 20, CompletionTokens: 300, DraftTokens: 4000, AcceptedTokens: 50000}},
		{Stats: Stats{PromptTokens: 2, CachedTokens: 30, CompletionTokens: 400, DraftTokens: 5000, AcceptedTokens: 60000}},
		{Failed: true, Stats: Stats{PromptTokens: 3}},
	} {
		s.Count(r)
	}
	require.Equal(t, []int{2, 1, 6, 50, 700, 9000, 110000}, []int{s.Done, s.Failed, s.PromptTokens, s.CachedTokens, s.CompletionTokens, s.DraftTokens, s.AcceptedTokens})
	s.SetRates(start.Add(4 * time.Second))
	require.Equal(t, 4*time.Second, s.Took())
	require.InDelta(t, 0.75, s.RowsPerSecond, 1e-12)
	require.InDelta(t, 175, s.TokensPerSecond, 1e-12)
	s.SetRates(start.Add(-time.Second))
	require.Zero(t, s.Took())
	require.Zero(t, s.RowsPerSecond)
	s.Started = nil
	require.Zero(t, s.Took())
}

func TestNewBatchesAreFirst(t *testing.T) {
	t.Parallel()
	all := []Status{{Batch: "b", Created: time.Unix(1, 0)}, {Batch: "a", Created: time.Unix(2, 0)}, {Batch: "a", Created: time.Unix(1, 0)}}
	SortStatuses(all)
	require.Equal(t, []Status{{Batch: "a", Created: time.Unix(2, 0)}, {Batch: "a", Created: time.Unix(1, 0)}, {Batch: "b", Created: time.Unix(1, 0)}}, all)
}

// The speed of a worker is that of the last second or longer.
func TestSpeedOfAWorker(t *testing.T) {
	t.Parallel()
	var s Speed
	now := time.Unix(100, 0)
	for _, c := range []struct {
		tokens uint64
		after  time.Duration
		want   float64
	}{{100, 0, 0}, {200, 500 * time.Millisecond, 0}, {300, time.Second, 200}, {900, 1500 * time.Millisecond, 200}, {900, 3 * time.Second, 300}, {900, 4 * time.Second, 0}} {
		require.InDelta(t, c.want, s.Measure(c.tokens, now.Add(c.after)), 1e-12)
	}
}

// The statistics of a row are those of all its prompts together.
func TestStatisticsOfSeveralPrompts(t *testing.T) {
	t.Parallel()
	choices := func(sizes ...int) (list []generation.Choice) {
		for _, n := range sizes {
			list = append(list, generation.Choice{Tokens: make([]int32, n)})
		}
		return list
	}
	done := []generation.Completion{
		{Choices: choices(3, 4), Stats: generation.Stats{
			PromptTokens: 10, CachedTokens: 4, CompletionTokens: 7, ReasoningTokens: 1, ResumedTokens: 2, Steps: 6, DraftTokens: 5, AcceptedTokens: 3, BatchMean: 2,
			MaskedTokens: 4, ForcedTokens: 1, MaskTime: 1500 * time.Microsecond,
			TTFT: 3 * time.Millisecond, Total: 20 * time.Millisecond, Prefill: 2 * time.Millisecond, Decode: 10 * time.Millisecond,
		}},
		{Choices: choices(5), Stats: generation.Stats{
			PromptTokens: 20, CachedTokens: 10, CompletionTokens: 5, ReasoningTokens: 2, Steps: 2, DraftTokens: 1, AcceptedTokens: 1, BatchMean: 4,
			MaskedTokens: 2, ForcedTokens: 3, MaskTime: time.Millisecond,
			TTFT: 1500 * time.Microsecond, Total: 30 * time.Millisecond, Prefill: 2 * time.Millisecond, Decode: 5 * time.Millisecond,
		}},
	}
	s := Stats{QueueWaitMS: 7, Attempts: 2}
	s.Add(done)
	require.Equal(t, Stats{
		QueueWaitMS: 7, Attempts: 2, TTFTMS: 1.5, TotalMS: 30, PromptTokens: 30, CachedTokens: 14, CompletionTokens: 12, ReasoningTokens: 3, ResumedTokens: 2,
		MaskedTokens: 6, ForcedTokens: 4, MaskMS: 2.5,
		ChoiceTokens: []int{3, 4, 5}, Steps: 8, DraftTokens: 6, AcceptedTokens: 4, BatchMean: 2.5,
		PrefillTPS: 4000,   // 16 tokens in 4 ms
		DecodeTPS:  466.67, // 3 + 4 tokens after the first ones in 15 ms: 7 - 2 - 2, and 5 - 1
	}, s)

	var only Stats
	only.Add([]generation.Completion{{Choices: choices(0), Stats: generation.Stats{PromptTokens: 10, Total: 5 * time.Millisecond}}})
	require.Equal(t, Stats{TotalMS: 5, PromptTokens: 10, PrefillTPS: 2000}, only, "without an answer, all the time was for the prompt")
	var none Stats
	none.Add(nil)
	require.Equal(t, Stats{}, none)
	require.Equal(t, "fp_metal_0123456789ab", Origin{Backend: "metal", ModelSHA256: "0123456789abcdef"}.Fingerprint())
	require.Equal(t, "fp_metal_01", Origin{Backend: "metal", ModelSHA256: "01"}.Fingerprint())
}

// A client that missed events gets what follows the part that it has, and notices a gap.
func TestWhatIsNewInAnEvent(t *testing.T) {
	t.Parallel()
	piece := generation.Piece{Choice: 1, Text: "cde", Reasoning: "xy", Tokens: []int32{3, 4}, Logprobs: []generation.TokenLogprob{{ID: 3}, {ID: 4}}}
	e := Event{Batch: "b", Prompt: 2, Before: Progress{Tokens: 2, Text: 4, Reasoning: 1}, Piece: piece}
	for _, c := range []struct {
		has    Progress
		ok     bool
		text   string
		reason string
		tokens []int32
	}{
		{Progress{Tokens: 2, Text: 4, Reasoning: 1}, true, "cde", "xy", []int32{3, 4}},
		{Progress{Tokens: 3, Text: 5, Reasoning: 2}, true, "de", "y", []int32{4}},
		{Progress{Tokens: 4, Text: 7, Reasoning: 3}, true, "", "", []int32{}},
		{Progress{Tokens: 9, Text: 9, Reasoning: 9}, true, "", "", []int32{}},
		{Progress{Tokens: 1, Text: 4, Reasoning: 1}, false, "cde", "xy", []int32{3, 4}},
		{Progress{Tokens: 2, Text: 3, Reasoning: 1}, false, "cde", "xy", []int32{3, 4}},
		{Progress{Tokens: 2, Text: 4, Reasoning: 0}, false, "cde", "xy", []int32{3, 4}},
	} {
		rest, ok := e.Since(c.has)
		require.Equal(t, c.ok, ok, "%+v", c.has)
		require.Equal(t, []any{1, c.text, c.reason, c.tokens}, []any{rest.Choice, rest.Text, rest.Reasoning, rest.Tokens})
		require.Len(t, rest.Logprobs, len(c.tokens))
	}
	var p Progress
	p.Add(piece)
	p.Add(piece)
	require.Equal(t, Progress{Tokens: 4, Text: 6, Reasoning: 4}, p)
	text, err := e.Encode()
	require.NoError(t, err)
	got, err := DecodeEvent(text)
	require.NoError(t, err)
	require.Equal(t, e, got)
	_, err = DecodeEvent([]byte("{"))
	require.ErrorContains(t, err, "read an event")
}

// An event without log-probabilities has none after a part of it was received.
func TestWhatIsNewWithoutLogprobs(t *testing.T) {
	t.Parallel()
	e := Event{Piece: generation.Piece{Tokens: []int32{3, 4}}}
	got, ok := e.Since(Progress{Tokens: 1})
	require.True(t, ok)
	require.Equal(t, []int32{4}, got.Tokens)
	require.Nil(t, got.Logprobs)
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	err := errors.New("x")
	for _, c := range []struct {
		got, want Outcome
		uncounted bool
	}{
		{Done(), Outcome{Kind: KindDone}, false},
		{Retry(time.Minute, err), Outcome{Kind: KindRetry, After: time.Minute, Err: err}, false},
		{Refuse(err), Outcome{Kind: KindRefuse, After: time.Second, Err: err}, true},
		{HandBack(), Outcome{Kind: KindHandBack}, true},
		{Interrupted(err), Outcome{Kind: KindInterrupted, Err: err}, false},
		{Outcome{}, Interrupted(nil), false},
	} {
		require.Equal(t, c.want, c.got)
		require.Equal(t, c.uncounted, c.got.Uncounted())
	}
	for n, want := range map[int]time.Duration{-1: time.Second, 0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute, 100: time.Minute} {
		require.Equal(t, want, RetryDelay(n), n)
	}
}

func TestLinesOfABatch(t *testing.T) {
	t.Parallel()
	var l Lines
	for _, line := range []int{1, 7, 8, 100} {
		require.False(t, l.Has(line))
		l.Add(line)
		l.Add(line)
	}
	for line := range 120 {
		require.Equal(t, line == 1 || line == 7 || line == 8 || line == 100, l.Has(line), line)
	}
	require.Len(t, l, 13)
	require.Equal(t, byte(0x41), l[0], "as Redis numbers bits")
}

// pages is a Store whose Read returns few results at a time.
type pages struct {
	Store
	rows  []Recording
	limit int // results per Read
	reads int
}

func (p *pages) Read(_ context.Context, _ string, q Page) (list []Recording, err error) {
	p.reads++
	texts := 0
	for _, r := range p.rows {
		if r.ID <= q.After || len(list) == q.Count {
			continue
		}
		if q.Want(r) {
			if texts++; texts > p.limit {
				break
			}
		} else {
			r.Text = nil
		}
		list = append(list, r)
	}
	return list, nil
}

// breaking is a store whose reads fail after a number of them.
type breaking struct {
	*pages
	left int
}

func (b *breaking) Read(ctx context.Context, batch string, p Page) ([]Recording, error) {
	if b.left--; b.left < 0 {
		return nil, ErrUnavailable
	}
	return b.pages.Read(ctx, batch, p)
}

// Every failed row is reported once, in order, however few results fit into a page.
func TestErrorsOfABatch(t *testing.T) {
	t.Parallel()
	failed := func(id string, line int) Recording {
		r := Failure(&Job{Batch: "b", Line: line, Sum: "00000000", CustomID: id}, openai.Error{Code: "failed", Message: "oops " + id}, Stats{})
		return Recording{ID: id, Line: line, Sum: "0000000" + id, Failed: true, Text: r.Text}
	}
	p := &pages{limit: 1, rows: []Recording{
		{ID: "1", Line: 5, Text: []byte("answer")}, failed("2", 3), {ID: "3", Damage: "x"}, failed("4", 1), failed("5", 9), {ID: "6", Line: 7, Text: []byte("answer")},
		{ID: "7", Line: 8, Failed: true}, // its result was freed
	}}
	for _, limit := range []int{1, 2, 100} {
		p.limit = limit
		var got []RowError
		require.NoError(t, Errors(t.Context(), p, "b", func(e RowError) error { got = append(got, e); return nil }))
		require.Equal(t, []RowError{
			{Line: 3, CustomID: "2", Code: "failed", Message: "oops 2", ID: "2", Sum: "00000002"},
			{Line: 1, CustomID: "4", Code: "failed", Message: "oops 4", ID: "4", Sum: "00000004"},
			{Line: 9, CustomID: "5", Code: "failed", Message: "oops 5", ID: "5", Sum: "00000005"},
		}, got)
	}
	stop := errors.New("stop")
	require.ErrorIs(t, Errors(t.Context(), p, "b", func(RowError) error { return stop }), stop)
	p.rows = append(p.rows, Recording{ID: "8", Line: 4, Failed: true, Text: []byte(`{"custom_id":"x","error":null}`)})
	p.limit = 1
	for reads := range 2 { // the first page and a later one
		broken := &breaking{pages: p, left: reads}
		require.ErrorIs(t, Errors(t.Context(), broken, "b", func(RowError) error { return nil }), ErrUnavailable, "after %d reads", reads)
	}
	err := Errors(t.Context(), p, "b", func(RowError) error { return nil })
	require.EqualError(t, err, "read results of batch b: line 4 is recorded as failed, but its result is not an error line")
}

func TestDeadlinesOfJobs(t *testing.T) {
	t.Parallel()
	none := &Job{}
	_, ok := none.Deadline()
	require.False(t, ok)
	require.False(t, none.Overdue())
	past, future := &Job{Batch: "b", Line: 3, DeadlineMS: 1_700_000_000_000}, &Job{DeadlineMS: time.Now().Add(time.Hour).UnixMilli()}
	deadline, ok := past.Deadline()
	require.True(t, ok)
	require.Equal(t, time.Unix(1_700_000_000, 0), deadline)
	require.Equal(t, []bool{true, false}, []bool{past.Overdue(), future.Overdue()})
	require.Equal(t, openai.Error{Code: openai.CodeExpired, Message: "not answered before the deadline of its batch, 2023-11-14T22:13:20Z"}, ExpiredError(past))
	r, err := Expired(past)
	require.NoError(t, err)
	require.True(t, r.Failed)
	job, err := past.Encode()
	require.NoError(t, err)
	require.Equal(t, job, r.Job, "the row can be queued again")
	require.Equal(t, 90*time.Second, (&Job{TimeoutMS: 90_000}).Timeout())
	require.Equal(t, map[Priority]int{Critical: 6, Default: 3, Bulk: 1}, Priorities(), "as asynq's documentation has them")
}

// A request whose client waits has the seed of its client, and may be streamed; its answer names
// the model as the client does.
func TestJobsOfClients(t *testing.T) {
	t.Parallel()
	j := *testJob
	j.Endpoint, j.Body, j.Live = openai.Completions, []byte(`{"model":"mine","prompt":"a","stream":true}`), &Live{Channel: "c", Seed: 42}
	r, err := j.Parse()
	require.NoError(t, err)
	require.True(t, r.Streamed())
	require.EqualValues(t, 42, j.Generation(r, 0).Sampling.Seed)
	text := string(Answered(&j, r, []generation.Completion{{Choices: []generation.Choice{{Text: "x"}}}}, time.Unix(5, 0), Stats{Origin: testOrigin}).Text)
	require.Contains(t, text, `"id":"cmpl-x"`)
	require.Contains(t, text, `"model":"mine"`)
	j.Live = nil
	_, err = j.Parse()
	require.ErrorContains(t, err, `"stream" is not supported`)
}

// An answer pins the model that gave it; an error, and an answer of an unknown model, do not.
func TestWhatPinsAModel(t *testing.T) {
	t.Parallel()
	answered := Answered(testJob, new(openai.Request), nil, time.Unix(5, 0), Stats{Origin: testOrigin})
	require.NotEmpty(t, answered.Pin)
	require.Empty(t, Answered(testJob, new(openai.Request), nil, time.Unix(5, 0), Stats{}).Pin)
	require.Empty(t, Failure(testJob, openai.Error{Code: "x"}, Stats{Origin: testOrigin}).Pin)
	c := Checkpoint{Prompts: []generation.Progress{{Choices: [][]int32{{1, 2}, {3}}}, {}, {Choices: [][]int32{{4}}}}}
	require.Equal(t, 4, c.Tokens())
	require.Nil(t, c.Resume(1))
	require.Nil(t, c.Resume(3))
	require.Equal(t, &c.Prompts[2], c.Resume(2))
	require.Nil(t, (*Checkpoint)(nil).Resume(0))
}
