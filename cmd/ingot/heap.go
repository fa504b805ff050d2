package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// heapSlack is what the heap may hold besides the engine and its rows: connections, a line of input and one of output.
const heapSlack = 32 << 20

// limitHeap makes the garbage collector keep the heap to what it holds now, what rows may hold and the slack. Otherwise garbage could
// take as much memory again. A limit that the user has set in GOMEMLIMIT stays.
func limitHeap(rows int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + rows + heapSlack)
}
