package draft

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNGramDraft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tokens []int32
		limit  int
		want   []int32
	}{
		"nothing before":             {[]int32{1, 2, 3}, 4, nil},
		"one token is too little":    {[]int32{5, 9, 5}, 4, nil},
		"the tokens that followed":   {[]int32{1, 2, 3, 4, 9, 1, 2}, 2, []int32{3, 4}},
		"the latest occurrence wins": {[]int32{1, 2, 7, 1, 2, 8, 1, 2}, 1, []int32{8}},
		"a longer match wins":        {[]int32{3, 1, 2, 7, 4, 1, 2, 8, 3, 1, 2}, 1, []int32{7}},
		"a repetition continues":     {[]int32{1, 2, 3, 1, 2, 3, 1, 2, 3}, 7, []int32{1, 2, 3, 1, 2, 3, 1}},
		"shorter than n-grams":       {[]int32{1}, 4, nil},
		"as long as the shortest":    {[]int32{1, 1}, 4, nil},
		"longer than the shortest":   {[]int32{1, 1, 1}, 2, []int32{1, 1}},
		"empty":                      {nil, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, newNGrams().Draft(nil, c.tokens, c.limit))
		})
	}
}

// While a text grows token by token, its drafts are those that a search of the whole text from its
// end would find.
func TestNGramIsASearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 60).Draw(t, "tokens")
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		g := newNGrams()
		for n := range tokens {
			got := g.Draft(nil, tokens[:n+1], limit)
			want := searchBack(tokens[:n+1], limit)
			if len(got) == 0 && len(want) > 0 {
				continue // another n-gram may have overwritten this one
			}
			if len(want) > 0 && len(got) == limit && !slices.Equal(got, want) {
				// The longest n-gram may have been overwritten. The shorter n-gram that was found
				// must occur in the text too.
				require.True(t, followed(tokens[:n+1], got[0]))
			}
		}
	})
}

func searchBack(tokens []int32, limit int) []int32 {
	for n := 4; n >= 2; n-- {
		for at := len(tokens) - 1; at >= n && n <= len(tokens); at-- {
			if slices.Equal(tokens[at-n:at], tokens[len(tokens)-n:]) {
				text := slices.Clone(tokens)
				for i := range limit {
					text = append(text, text[at+i])
				}
				return text[len(tokens):]
			}
		}
	}
	return nil
}

// followed reports whether next followed an earlier occurrence of the last two tokens.
func followed(tokens []int32, next int32) bool {
	for at := 2; at < len(tokens); at++ {
		if slices.Equal(tokens[at-2:at], tokens[len(tokens)-2:]) && tokens[at] == next {
			return true
		}
	}
	return false
}

// In a text with more tokens than a table has slots, recent n-grams are found, and the memory stays
// bounded.
func TestNGramOfALongText(t *testing.T) { // not parallel: it counts what the process allocates
	const tokens = 1 << 18
	text := make([]int32, tokens, tokens+2)
	for i := range text {
		text[i] = int32(i)
	}
	text = append(text, tokens-1000, tokens-999)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := newNGrams().Draft(make([]int32, 0, 2), text, 2)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	require.Equal(t, []int32{tokens - 998, tokens - 997}, got)
}

// The memory of the tables depends on the length of the text.
func TestNGramsTakeMemoryByTheText(t *testing.T) {
	t.Parallel()
	g := newNGrams()
	var text []int32
	for i := range int32(40_000) {
		text = append(text, i)
		g.learn(text)
		require.LessOrEqual(t, 4*len(g.table), 1024+NGramBytes*len(text))
	}
	found := 0
	for i := range int32(100) { // later n-grams have overwritten some of them
		if drafts := newNGrams().Draft(nil, append(text[:1000:1000], i, i+1), 1); len(drafts) > 0 {
			require.Equal(t, []int32{i + 2}, drafts)
			found++
		}
	}
	require.Greater(t, found, 50, "n-grams from before the tables grew are found")
}

// Of the n-grams of a text, later ones overwrite only as many as share their entries at random,
// whether the tokens are few or many, and near or far apart.
func TestNGramsOfATextAreFound(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]func(i int32) int32{
		"near":   func(i int32) int32 { return i },
		"far":    func(i int32) int32 { return 64 * i },
		"random": func(i int32) int32 { return int32(uint32(i) * 2654435761 >> 8) },
	} {
		for n := shortestNGram; n <= longestNGram; n++ {
			var text []int32
			for i := range int32(1000) {
				text = append(text, token(i))
			}
			g := newNGrams()
			g.learn(text)
			require.Equal(t, 2048, g.slots)
			found := 0
			for at := n; at < len(text); at++ {
				if int(g.table[g.slot(text[at-n:at])]) == at {
					found++
				}
			}
			require.Greater(t, found, 750, "%d-grams, %s", n, name) // 790 expected
			require.Less(t, found, 850)
		}
	}
}

// A call enters the n-grams that are new since the one before, and no others.
func TestEachNGramIsEnteredOnce(t *testing.T) {
	t.Parallel()
	g := newNGrams()
	text := []int32{1, 2, 3, 4, 5, 6}
	require.Empty(t, g.Draft(nil, text, 3))
	table := &g.table[0]
	text[1], text[2] = 5, 6
	require.Empty(t, g.Draft(nil, text, 3))
	require.Equal(t, []int32{9, 5, 6, 4}, g.Draft([]int32{9}, append(text, 5, 6, 4, 5, 6), 3))
	require.Same(t, table, &g.table[0], "the tables are kept while they are large enough")
	g.grow(32)
	require.Equal(t, 64, g.slots)
	g.grow(33)
	require.Equal(t, 128, g.slots)
	g.grow(maxSlots)
	require.Equal(t, maxSlots, g.slots)
	require.Len(t, g.table, 3*maxSlots)
}

func BenchmarkNGram(b *testing.B) {
	tokens := make([]int32, 4096)
	for i := range tokens {
		tokens[i] = int32(i * i % 251)
	}
	var g *ngrams
	buf := make([]int32, 0, MaxTokens)
	b.ReportAllocs()
	for i := range b.N {
		n := i % len(tokens)
		if n == 0 {
			g = newNGrams()
		}
		buf = g.Draft(buf[:0], tokens[:n+1], MaxTokens)
	}
}
