package job

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
