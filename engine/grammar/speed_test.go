package grammar

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// BenchmarkVectors compiles each schema of the vectors, and computes the masks of all tokens of its
// valid instances, once. INGOT_VOCABULARY is a GGUF file with the vocabulary; without it, the
// vectors' GPT-2 is used. INGOT_RECORD is a file for testdata/mask_times.py, which times llguidance
// on the same masks. Run it with -benchtime 1x -v.
func BenchmarkVectors(b *testing.B) {
	path := os.Getenv("INGOT_VOCABULARY")
	if path == "" {
		path = filepath.Join(vectorFolder(b), "tokenizers", "gpt-2.gguf")
	}
	list := schemaVectors(b)
	for _, limit := range []int{0, 150_000} {
		tok, _ := loadTokenizer(b, path, 0)
		if limit >= tok.Size() {
			continue
		}
		before := heap()
		_, v := loadTokenizer(b, path, limit)
		fmt.Printf("vocabulary: %d tokens, %d KB\n", v.Size(), (heap()-before)>>10)
		b.Run(fmt.Sprint(v.Size()), func(b *testing.B) {
			for range b.N {
				measure(b, list, v)
			}
		})
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func measure(b *testing.B, list []vector, v *Vocabulary) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	type timed struct {
		time time.Duration
		what string
	}
	var masks, accepts, jumps, compiles []timed
	mask := make([]uint32, v.words())
	record := newRecord(b, v)
	instances, refused, failed, forced := 0, 0, 0, 0
	var states, slowest int64
	c := NewCompiler(v, Limits{})
	for _, s := range list {
		start := threadTime()
		g, err := c.Compile(b.Context(), &generation.Constraint{Schema: string(s.Schema)})
		if err != nil {
			refused++
			continue
		}
		compiles = append(compiles, timed{threadTime() - start, s.Name})
		for _, valid := range s.Valid {
			text := arranged(b, s.Schema, valid)
			instances++
			m := g.NewMatcher()
			encode := func(text string) []int32 { return v.split(text) }
			at := 0
			ids := append(v.split(text), v.ends[0])
			record(map[string]any{"name": s.Name, "schema": string(s.Schema), "tokens": ids})
			for _, id := range ids {
				start := threadTime()
				if err := m.Mask(mask); err != nil {
					b.Logf("%s: %v", s.Name, err)
				}
				masks = append(masks, timed{threadTime() - start, fmt.Sprintf("%s: %q", s.Name, text[max(0, at-30):at])})
				at += len(v.bytes[id])
				start = threadTime()
				tokens, err := m.Forced(encode)
				require.NoError(b, err)
				if len(tokens) > 0 {
					forced++
				}
				jumps = append(jumps, timed{threadTime() - start, s.Name})
				start = threadTime()
				if err := m.Accept(id); err != nil {
					failed++
					if testing.Verbose() {
						b.Logf("%s: %v in %.300s", s.Name, err, text)
					}
					break
				}
				accepts = append(accepts, timed{threadTime() - start, s.Name})
			}
		}
		n := g.current.Load().bytes()
		states += n
		slowest = max(slowest, n)
	}
	record(nil)
	report := func(name string, list []timed) {
		slices.SortFunc(list, func(x, y timed) int { return int(x.time - y.time) })
		at := func(p float64) timed { return list[min(int(p*float64(len(list))), len(list)-1)] }
		var sum time.Duration
		for _, t := range list {
			sum += t.time
		}
		fmt.Printf("%s: %d, mean %v, p50 %v, p90 %v, p99 %v, p99.9 %v, max %v\n", name, len(list), sum/time.Duration(len(list)),
			at(.5).time, at(.9).time, at(.99).time, at(.999).time, at(1).time)
		for _, t := range list[max(0, len(list)-len(list)/100):] {
			fmt.Println("   ", t.time, t.what)
		}
	}
	report("mask", slices.Clone(masks))
	report("accept", accepts)
	report("forced", jumps)
	report("compile", compiles)
	fmt.Printf("%d instances, %d not accepted, %d schemas refused; automata %d KB, the largest %d KB; forced %d\n",
		instances, failed, refused, states>>10, slowest>>10, forced)
}

// newRecord returns a function that appends a line of JSON to the file INGOT_RECORD, if it is set,
// whose first line is the vocabulary. nil closes the file.
func newRecord(b *testing.B, v *Vocabulary) func(line map[string]any) {
	path := os.Getenv("INGOT_RECORD")
	if path == "" {
		return func(map[string]any) {}
	}
	f, err := os.Create(path)
	require.NoError(b, err)
	tokens := make([]string, v.size)
	for id, t := range v.bytes {
		tokens[id] = hex.EncodeToString(t)
	}
	write := func(line map[string]any) {
		if line == nil {
			require.NoError(b, f.Close())
			return
		}
		require.NoError(b, json.NewEncoder(f).Encode(line))
	}
	write(map[string]any{"tokens": tokens, "ends": v.ends})
	return write
}
