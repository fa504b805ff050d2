package main

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/ingot-run/ingot/engine"
)

// heapSlack is what the heap may hold besides the engine and its rows: connections, a line of input and one of output.
const heapSlack = 32 << 20

// limitHeap makes the garbage collector keep the heap to what it holds now, what rows may hold and the slack. Otherwise garbage could
// take as much memory again. A limit that the user has set in GOMEMLIMIT stays.
func limitHeap(fit engine.Fit) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + fit.Rows + heapSlack)
}
