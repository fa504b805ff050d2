package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTime is the time after its start in which a process may end by itself, because it cannot
	// reach Redis. After that, it must survive every disturbance.
	startTime  = 20 * time.Second
	startPause = time.Second
	// drainTime is the maximum time from SIGTERM to the end of a process. The machine is busy with
	// the other processes.
	drainTime = 2 * time.Minute
)

// process is a program that is started again whenever it ends, until it is retired or, if once is
// set, until it succeeds.
type process struct {
	name    string
	command []string
	dir     string
	once    bool
	journal *journal
	storm   context.Context // when this ends, a process that is down starts again at once
	done    chan struct{}   // closed when run returns

	mu      sync.Mutex
	cmd     *exec.Cmd      // nil while it is not running
	since   time.Time      // start of cmd
	ending  syscall.Signal // the signal that was sent to end the process; 0 if none was sent
	sent    time.Time      // when the signal ending was sent
	down    time.Duration  // how long the process stays down after it has ended
	retired bool
	starts  int
	drains  []time.Duration // from SIGTERM to the end
}

func (p *process) run(ctx context.Context) error {
	defer close(p.done)
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // only the processes write to the log
	for {
		cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
		cmd.Env = environment(p.dir)
		p.mu.Lock()
		if p.retired {
			p.mu.Unlock()
			return nil
		}
		if err := cmd.Start(); err != nil {
			p.mu.Unlock()
			return fmt.Errorf("start %s: %w", p.name, err)
		}
		p.cmd, p.since, p.ending, p.down = cmd, time.Now(), 0, 0
		p.starts++
		p.mu.Unlock()
		err := cmd.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause, done := p.ended(err)
		if done {
			return nil
		}
		rest(p.storm, pause)
	}
}

// ended records the end of the process. pause is how long the process stays down. done reports
// whether it will not be started again.
func (p *process) ended(err error) (pause time.Duration, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Since(p.since)
	p.cmd = nil
	switch {
	case p.ending == syscall.SIGKILL:
	case p.ending == syscall.SIGTERM && err != nil && age > startTime:
		p.journal.fault("%s ended after SIGTERM with %v; the last line of its log is %s", p.name, err, p.lastLine())
	case p.ending == syscall.SIGTERM:
		p.drains = append(p.drains, time.Since(p.sent))
	case p.once && err == nil:
		return 0, true
	case age <= startTime && err != nil:
		p.journal.note("%s could not start; the last line of its log is %s", p.name, p.lastLine())
		return startPause, p.retired
	default:
		p.journal.fault("%s ended by itself after %v with %v; the last line of its log is %s", p.name, age.Round(time.Second), cmp.Or(err, errors.New("exit status 0")), p.lastLine())
		return startPause, p.retired
	}
	return p.down, p.retired
}

// kill ends the process with SIGKILL. The process then stays down for the given time. kill reports
// whether it was running.
func (p *process) kill(down time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	p.ending, p.down = syscall.SIGKILL, down
	return p.cmd.Process.Kill() == nil
}

// drain ends the process with SIGTERM, unless it is already ending. If that takes longer than
// drainTime, drain records a fault. drain reports whether it sent the signal.
func (p *process) drain(ctx context.Context, down time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.ending != 0 {
		return false
	}
	p.ending, p.sent, p.down = syscall.SIGTERM, time.Now(), down
	cmd := p.cmd
	if cmd.Process.Signal(syscall.SIGTERM) != nil {
		return false
	}
	go func() {
		rest(ctx, drainTime)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cmd == cmd && p.ending == syscall.SIGTERM && ctx.Err() == nil {
			p.journal.fault("%s has not ended %v after SIGTERM", p.name, drainTime)
			p.ending = syscall.SIGKILL
			cmd.Process.Kill() //nolint:errcheck // the process may have just ended
		}
	}()
	return true
}

// stop stops the process with SIGSTOP until undo is called. It does not stop a process that is
// ending, since that process could then not end in time.
func (p *process) stop() (undo func(), stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.ending != 0 {
		return nil, false
	}
	cmd := p.cmd
	if cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return nil, false
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cmd == cmd {
			cmd.Process.Signal(syscall.SIGCONT) //nolint:errcheck // the process may have been killed
		}
	}, true
}

func (p *process) retire(ctx context.Context) {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	p.drain(ctx, 0)
}

func (p *process) history() (starts int, drains []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts, slices.Clone(p.drains)
}

func (p *process) log() string { return filepath.Join(p.dir, p.name+".log") }

func (p *process) lastLine() string {
	text, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimSpace(text)
	return fmt.Sprintf("%q", text[bytes.LastIndexByte(text, '\n')+1:])
}

// environment returns this process's environment without the variables that configure ingot.
// XDG_CONFIG_HOME is dir, so that ingot does not read the user's config file.
func environment(dir string) []string {
	env := []string{"XDG_CONFIG_HOME=" + dir}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "INGOT_") && !strings.HasPrefix(v, "XDG_CONFIG_HOME=") {
			env = append(env, v)
		}
	}
	return env
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
