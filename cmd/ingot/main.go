// Ingot generates text in bulk: a file of prompts in, a file of answers out, on one machine or
// through a queue in Redis.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ingot-run/ingot/files/table"
)

func main() {
	table.Version = programVersion()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup starts programs that ignore SIGHUP
		signals = append(signals, syscall.SIGHUP)
	}
	received := make(chan os.Signal, 8)
	signal.Notify(received, signals...)
	ctx, interrupt := context.WithCancel(context.Background())
	go func() {
		<-received
		interrupt()
		endBySignal(received)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// endBySignal ends the process at once when a second signal arrives. The first signal started an
// orderly end. SIGHUP is ignored here: when a terminal is closed, both the kernel and the shell may
// send it.
func endBySignal(received <-chan os.Signal) {
	for s := range received {
		if s == syscall.SIGHUP {
			continue
		}
		signal.Reset(s)
		syscall.Kill(os.Getpid(), s.(syscall.Signal)) //nolint:errcheck // the process exists: it is this one
	}
}
