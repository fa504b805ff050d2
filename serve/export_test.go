package serve

import "time"

// SetReadLimits sets the time limits for receiving headers and bodies, and of idle connections.
func (o *Options) SetReadLimits(d time.Duration) {
	l := o.testLimits()
	l.header, l.body, l.idle = d, d, d
}

// SetDrainTime sets the time for running requests to finish when Serve stops.
func (o *Options) SetDrainTime(d time.Duration) { o.testLimits().drain = d }

// SetKeepAlive sets the time without an event after which a stream gets a comment.
func (o *Options) SetKeepAlive(d time.Duration) { o.testLimits().keepAlive = d }

// SetMaxWaiting sets the number of waiting requests from which on others are refused.
func (o *Options) SetMaxWaiting(n int64) { o.testLimits().waiting = n }

func (o *Options) testLimits() *limits {
	if o.limits == nil {
		l := defaultLimits
		o.limits = &l
	}
	return o.limits
}
