package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// heapSlack is what the heap may hold in addition to the engine and its rows, in bytes: connections, a line of input and one of output.
const heapSlack = 32 << 20

// limitHeap limits the heap to its present size, the memory of rows (in bytes) and heapSlack. Without a limit, garbage could double the
// heap. GOMEMLIMIT takes precedence.
func limitHeap(rows int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + rows + heapSlack)
}
