package redisqueue

import "context"

// eventChannel returns the name of a channel of events in Redis.
func eventChannel(channel string) string { return "ingot:events:" + channel }

// Announce implements queue.Queue.
func (q *Queue) Announce(ctx context.Context, channel string, message []byte) error {
	return failure(q.rdb.Publish(ctx, eventChannel(channel), message).Err(), "announce an event")
}

// Listen implements queue.Queue. The client connects and subscribes again when the connection is
// lost.
func (q *Queue) Listen(ctx context.Context, channel string, onReady func(), onMessage func(message []byte)) error {
	s := q.rdb.Subscribe(ctx, eventChannel(channel))
	defer s.Close() //nolint:errcheck // the connection is only for this subscription
	if _, err := s.Receive(ctx); err != nil {
		return failure(err, "listen to events")
	}
	onReady()
	stop := context.AfterFunc(ctx, func() { s.Close() }) //nolint:errcheck // the connection is only for this subscription
	defer stop()
	for m := range s.Channel() {
		onMessage([]byte(m.Payload))
	}
	return nil
}
