package redisqueue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// eventChannel returns the name of a channel of events in Redis.
func eventChannel(channel string) string { return "ingot:events:" + channel }

// Announce implements queue.Queue.
func (q *Queue) Announce(ctx context.Context, channel string, message []byte) error {
	return failure(q.rdb.Publish(ctx, eventChannel(channel), message).Err(), "announce an event")
}

// Listen implements queue.Queue. The client connects and subscribes again when the connection is
// lost.
func (q *Queue) Listen(ctx context.Context, channel string, onReady func(), onMessage func(message []byte)) error {
	err := q.subscribe(ctx, onReady, func(m *redis.Message) { onMessage([]byte(m.Payload)) }, eventChannel(channel))
	return failure(err, "listen to events")
}

// subscribe receives the messages of channels until ctx is done. It calls onReady when the
// subscription begins, and returns an error if it does not begin.
func (q *Queue) subscribe(ctx context.Context, onReady func(), onMessage func(*redis.Message), channels ...string) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := q.rdb.Subscribe(ctx, channels...)
	context.AfterFunc(ctx, func() { s.Close() }) //nolint:errcheck // the connection is only for this subscription
	if _, err := s.Receive(ctx); err != nil {
		return err
	}
	onReady()
	for m := range s.Channel() {
		onMessage(m)
	}
	return nil
}
