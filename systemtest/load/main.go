// Load measures a server under load. It reports the time that chats wait for their first token,
// first on an idle server, and then while many clients and a batch use the server. The server needs
// --data:
//
//	ingot serve --model tiny=models/tiny-glm.q8_0.gguf --data /tmp/data &
//	go run ./systemtest/load -model tiny -for 60s
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.url, "url", "http://127.0.0.1:8080", "address of the server")
	flag.StringVar(&o.model, "model", "tiny", "alias of the model")
	flag.IntVar(&o.clients, "clients", 64, "number of clients that send chats at the same time")
	flag.DurationVar(&o.time, "for", time.Minute, "duration of the load")
	flag.IntVar(&o.idle, "idle", 50, "number of chats, one after another, before the load")
	flag.IntVar(&o.rows, "rows", 20000, "number of rows of the batch that runs during the load; 0 for no batch")
	flag.IntVar(&o.tokens, "tokens", 64, "number of tokens per answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	r, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	r.print(o)
	if r.failed > 0 {
		os.Exit(1)
	}
}

type report struct {
	idle, loaded []time.Duration // times to the first token of streamed chats
	requests     int
	failed       int
	failure      string // message of the first failed request
	tokens       int
	rows         int     // number of rows of the batch that were answered during the load
	memory       []int64 // resident memory of the server in bytes: before, during and after the load
}

func (r *report) print(o options) {
	fmt.Printf("%d clients for %v: %d requests, %d failed, %.0f tokens/s; %d rows of the batch\n",
		o.clients, o.time, r.requests, r.failed, float64(r.tokens)/o.time.Seconds(), r.rows)
	if r.failed > 0 {
		fmt.Println("first failure:", r.failure)
	}
	printTimes("idle", r.idle)
	printTimes("loaded", r.loaded)
	fmt.Print("resident memory in MiB:")
	for _, m := range r.memory {
		fmt.Printf(" %d", m>>20)
	}
	fmt.Println()
}

func printTimes(name string, times []time.Duration) {
	fmt.Printf("time to first token, %s: p50 %v, p95 %v of %d\n", name, quantile(times, 0.5), quantile(times, 0.95), len(times))
}

func quantile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[int(share*float64(len(sorted)-1))].Round(100 * time.Microsecond)
}
