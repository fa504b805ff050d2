package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// heapSlack is memory, in bytes, for what the heap holds besides the engine and its rows: connections, a line of input, a line of output.
const heapSlack = 32 << 20

// limitHeap limits the growth of the heap to rows plus heapSlack. The parameter rows is the number of bytes that rows may use. Without a
// limit, garbage could double the heap. The environment variable GOMEMLIMIT takes precedence.
func limitHeap(rows int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + rows + heapSlack)
}
