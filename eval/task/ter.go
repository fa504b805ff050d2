package task

import (
	"math"
	"slices"
	"strings"
)

// The translation edit rate as SacreBLEU computes it with its default settings (M. Snover et al.,
// "A Study of Translation Edit Rate with Targeted Human Annotation", 2006): the words to insert,
// delete, replace or shift, per word of the target.

const (
	terLongestShift = 10
	terFarthest     = 50
	terBeam         = 25
	terCandidates   = 1000
)

// terStatistics returns the number of edits and the number of words of the target.
func terStatistics(answer, target string) []float64 {
	words, right := strings.Fields(strings.ToLower(answer)), strings.Fields(strings.ToLower(target))
	if len(right) == 0 {
		return []float64{float64(len(words)), 0}
	}
	shifts, tried := 0, 0
	for {
		shifted, gain := terShift(words, right, &tried)
		if tried >= terCandidates || gain <= 0 {
			break
		}
		words = shifted
		shifts++
	}
	edits, _ := terEdits(words, right)
	return []float64{float64(shifts + edits), float64(len(right))}
}

// ter is the rate of sums of statistics.
func ter(sums []float64) float64 {
	switch edits, words := sums[0], sums[1]; {
	case words > 0:
		return 100 * edits / words
	case edits > 0:
		return 100
	}
	return 0
}

// terShift returns the words after the shift that saves most edits, and how many it saves. It adds
// the number of shifts that it tried to tried.
func terShift(words, right []string, tried *int) (best []string, gain int) {
	before, trace := terEdits(words, right)
	align, wrong, wrongRight := terAlign(trace)
	var rank []int
	for _, p := range terPairs(words, right) {
		from, to, n := p[0], p[1], p[2]
		if !slices.Contains(wrong[from:from+n], true) || !slices.Contains(wrongRight[to:to+n], true) || from <= align[to] && align[to] < from+n {
			continue
		}
		var targets []int
		for offset := -1; offset < n; offset++ {
			target := 0
			if to+offset >= 0 {
				target = align[to+offset] + 1
			}
			targets = append(targets, target)
		}
		for _, target := range slices.Compact(targets) {
			shifted := terMoved(words, from, n, target)
			after, _ := terEdits(shifted, right)
			*tried++
			if r := []int{before - after, n, -from, -target}; rank == nil || slices.Compare(r, rank) > 0 {
				rank, best = r, shifted
			}
		}
		if *tried >= terCandidates {
			break
		}
	}
	if rank == nil {
		return words, 0
	}
	return best, rank[0]
}

// terMoved returns the words with the n words at from moved to target.
func terMoved(words []string, from, n, target int) []string {
	moved := words[from : from+n]
	switch {
	case target < from:
		return slices.Concat(words[:target], moved, words[target:from], words[from+n:])
	case target > from+n:
		return slices.Concat(words[:from], words[from+n:target], moved, words[target:])
	}
	end := min(n+target, len(words))
	return slices.Concat(words[:from], words[from+n:end], moved, words[end:])
}

// terPairs returns the sequences of words that are in both lists: where they begin, and their
// length.
func terPairs(words, right []string) (pairs [][3]int) {
	for from := range words {
		for to := max(0, from-terFarthest); to < min(len(right), from+terFarthest+1); to++ {
			for n := 0; n < terLongestShift && from+n < len(words) && to+n < len(right) && words[from+n] == right[to+n]; n++ {
				pairs = append(pairs, [3]int{from, to, n + 1})
			}
		}
	}
	return pairs
}

// The edits that turn words into the target.
const (
	terNone    = ' '
	terReplace = 's'
	terInsert  = 'i'
	terDelete  = 'd'
)

// terEdits returns the smallest number of edits of single words, and the edits. It only considers
// alignments near the diagonal.
func terEdits(words, right []string) (n int, trace []byte) {
	type cell struct {
		edits int
		last  byte
	}
	table := make([][]cell, len(words)+1)
	for i := range table {
		table[i] = make([]cell, len(right)+1)
		for j := range table[i] {
			table[i][j] = cell{math.MaxInt / 2, 0}
			if i == 0 {
				table[i][j] = cell{j, terInsert}
			}
		}
	}
	ratio := float64(len(right)) / float64(max(1, len(words)))
	beam := terBeam
	if terBeam < ratio/2 {
		beam = int(math.Ceil(ratio/2 + terBeam))
	}
	for i := 1; i <= len(words); i++ {
		diagonal := int(float64(i) * ratio)
		end := min(len(right)+1, diagonal+beam)
		if i == len(words) {
			end = len(right) + 1
		}
		for j := max(0, diagonal-beam); j < end; j++ {
			if j == 0 {
				table[i][0] = cell{table[i-1][0].edits + 1, terDelete}
				continue
			}
			same := cell{table[i-1][j-1].edits + 1, terReplace}
			if words[i-1] == right[j-1] {
				same = cell{table[i-1][j-1].edits, terNone}
			}
			for _, c := range []cell{same, {table[i-1][j].edits + 1, terDelete}, {table[i][j-1].edits + 1, terInsert}} {
				if c.edits < table[i][j].edits {
					table[i][j] = c
				}
			}
		}
	}
	for i, j := len(words), len(right); i > 0 || j > 0; {
		last := table[i][j].last
		trace = append(trace, last)
		if last != terInsert {
			i--
		}
		if last != terDelete {
			j--
		}
	}
	slices.Reverse(trace)
	return table[len(words)][len(right)].edits, trace
}

// terAlign returns the word that each word of the target is aligned with, and which words of both
// are wrong.
func terAlign(trace []byte) (align []int, wrong, wrongRight []bool) {
	at := -1
	for _, edit := range trace {
		if edit != terInsert {
			at++
			wrong = append(wrong, edit != terNone)
		}
		if edit != terDelete {
			align = append(align, at)
			wrongRight = append(wrongRight, edit != terNone)
		}
	}
	return align, wrong, wrongRight
}
