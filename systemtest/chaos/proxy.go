package main

import (
	"context"
	"errors"
	"net"
	"sync"
)

// proxy forwards connections to Redis and can disturb them. Each worker has a proxy of its own; all
// producers and collectors share one.
type proxy struct {
	listener net.Listener
	target   string // path of Redis's Unix socket

	mu       sync.Mutex
	conns    map[net.Conn]bool // the client's and Redis's side of every connection
	refusing int               // number of active disturbances that refuse connections
	losing   int               // number of active disturbances that lose replies
	stalls   int               // number of active disturbances that stall all data
	passes   chan struct{}     // closed while stalls is 0
}

func newProxy(ctx context.Context, target string) (*proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}, passes: make(chan struct{})}
	close(p.passes)
	return p, nil
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() + "/0" }

func (p *proxy) serve(ctx context.Context) error {
	context.AfterFunc(ctx, func() {
		p.listener.Close() //nolint:errcheck // a listener has no unwritten data
		p.drop()
	})
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go p.connect(ctx, client)
	}
}

func (p *proxy) connect(ctx context.Context, client net.Conn) {
	defer reset(client)
	server, err := new(net.Dialer).DialContext(ctx, "unix", p.target)
	if err != nil { // Redis is not running
		return
	}
	defer reset(server)
	p.mu.Lock()
	refusing := p.refusing > 0
	if !refusing {
		p.conns[client], p.conns[server] = true, true
	}
	p.mu.Unlock()
	if refusing {
		return
	}
	go func() {
		p.pass(ctx, server, client, func() bool { return false })
		reset(server) // ends the other direction
	}()
	p.pass(ctx, client, server, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.losing > 0
	})
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// pass copies data from one side of a connection to the other. It ends when either side is closed.
// After each read, it drops the data and ends if isLost returns true.
func (p *proxy) pass(ctx context.Context, to, from net.Conn, isLost func() bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.wait(ctx) || isLost() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait waits until no disturbance stalls the proxy. It returns false if ctx is done before.
func (p *proxy) wait(ctx context.Context) bool {
	p.mu.Lock()
	passes := p.passes
	p.mu.Unlock()
	select {
	case <-passes:
		return true
	case <-ctx.Done():
		return false
	}
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0) //nolint:errcheck // the connection is closed in any case
	}
	c.Close() //nolint:errcheck // unsent data may be lost
}

func (p *proxy) drop() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
	return len(p.conns) / 2
}

func (p *proxy) refuse() (undo func()) {
	p.count(&p.refusing, 1)
	p.drop()
	return func() { p.count(&p.refusing, -1) }
}

// loseReplies loses replies until undo is called. The connection of a lost reply is closed.
func (p *proxy) loseReplies() (undo func()) {
	p.count(&p.losing, 1)
	return func() { p.count(&p.losing, -1) }
}

func (p *proxy) count(n *int, change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n += change
}

// stall stops all data, in both directions, until undo is called.
func (p *proxy) stall() (undo func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalls++; p.stalls == 1 {
		p.passes = make(chan struct{})
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.stalls--; p.stalls == 0 {
			close(p.passes)
		}
	}
}
