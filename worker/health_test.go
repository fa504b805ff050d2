package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPulse(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	at := func(seconds int) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds) * time.Second) }
	p := newPulse(2, at(0))
	var fetched time.Time
	check := func(seconds int) error { return p.check(at(seconds), fetched, limit) }
	require.NoError(t, check(9))
	require.EqualError(t, check(10), "for the last 10s, no row could be taken from the queue")
	fetched = at(11)
	require.NoError(t, check(20))

	p.begin()
	require.Error(t, check(30), "a slot is free")
	p.begin()
	require.NoError(t, check(1000), "a worker without a free slot does not ask for rows")
	p.begin() // a row ahead
	require.NoError(t, check(1500))
	p.end(at(1900))
	p.end(at(2000))
	require.NoError(t, check(2009), "the limit starts when a slot becomes free")
	require.Error(t, check(2010))
	fetched = at(2010)

	p.recorded(at(2010), errors.New("OOM"))
	p.recorded(at(2015), errors.New("MISCONF"))
	require.NoError(t, check(2019))
	fetched = at(2019)
	require.EqualError(t, check(2020), "for the last 10s, no result could be recorded: MISCONF")
	p.recorded(at(2021), nil)
	fetched = at(2025)
	require.NoError(t, check(2030))
	p.recorded(at(2030), errors.New("OOM"))
	require.NoError(t, check(2034), "the limit starts with the first error")
}
