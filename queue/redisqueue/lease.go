package redisqueue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// asynqLease is the duration of asynq's leases. A task whose lease has been over for a while is delivered again by asynq's recoverer.
	asynqLease = 30 * time.Second
	// renewInterval is the time between two renewals of asynq's leases.
	renewInterval = 5 * time.Second
	// subscribeAgain is the time before another attempt to subscribe to the channels of listen.
	subscribeAgain = 5 * time.Second
)

// renewLeases renews asynq's leases of all held deliveries, at once and then at intervals, until ctx is done. It ends deliveries whose
// leases are over.
func (m *member) renewLeases(ctx context.Context) {
	every(ctx, renewInterval, func() { m.renew(ctx) })
}

func (m *member) renew(ctx context.Context) {
	now := time.Now()
	until := now.Add(asynqLease)
	all := map[string][]redis.Z{}
	var renewed []*held
	m.mu.Lock()
	for h := range m.helds {
		if now.After(h.lease) {
			h.end()
			continue
		}
		renewed = append(renewed, h)
		all[h.queue] = append(all[h.queue], redis.Z{Score: float64(until.Unix()), Member: h.task})
	}
	m.mu.Unlock()
	if len(renewed) == 0 {
		return
	}
	pipe := m.queue.rdb.Pipeline()
	for queue, leases := range all {
		pipe.ZAddXX(ctx, asynqKey(queue, "lease"), leases...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		m.outage.failed("could not renew the leases of rows", failure(err, "write to asynq's list of leases"))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range renewed {
		h.lease = until
	}
}

// hasLease reports whether asynq's lease of a delivery is not over yet. When the lease is over, this worker must not change the task.
func (h *held) hasLease() bool {
	h.member.mu.Lock()
	defer h.member.mu.Unlock()
	return time.Now().Before(h.lease)
}

// listen receives messages until ctx is done. It ends the deliveries that asynq's tools or Cancel have cancelled, and calls the function
// arrived when a producer has added an Interactive job, or may have added one.
func (m *member) listen(ctx context.Context, arrived func()) {
	for ctx.Err() == nil {
		s := m.queue.rdb.Subscribe(ctx, cancelChannel, arrivalChannel(m.options.Alias))
		_, err := s.Receive(ctx)
		if err == nil {
			arrived() // jobs may have arrived before the subscription
			m.hear(ctx, s.Channel(), arrived)
		}
		s.Close() //nolint:errcheck // the connection is only for this subscription
		select {
		case <-ctx.Done():
		case <-time.After(subscribeAgain):
		}
	}
}

// arrivalChannel is the channel on which the arrival of Interactive jobs of a model alias is announced.
func arrivalChannel(alias string) string { return eventChannel("queue:" + alias) }

// hear handles the messages of listen until ctx is done.
func (m *member) hear(ctx context.Context, messages <-chan *redis.Message, arrived func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-messages:
			switch {
			case message == nil:
				return
			case message.Channel == cancelChannel:
				m.cancel(message.Payload)
			default:
				arrived()
			}
		}
	}
}

// cancel ends the delivery of the task with this id, if the member holds it.
func (m *member) cancel(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h := range m.helds {
		if h.task == id {
			h.end()
		}
	}
}
