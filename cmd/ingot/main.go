// Ingot generates text in bulk: a file of prompts in, a file of answers out, on one machine or through a queue in Redis.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	hangup := !signal.Ignored(syscall.SIGHUP) // nohup ignores it
	if hangup {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// The first signal asks for an orderly end. A second one ends the process at once, except SIGHUP, which both kernel and
	// shell may send when a terminal is closed.
	context.AfterFunc(ctx, func() {
		if hangup {
			signal.Ignore(syscall.SIGHUP)
		}
		stop()
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
