package task

import (
	"regexp"
	"slices"
	"strings"
)

// ROUGE as the package rouge-score computes it, without stemming (C.-Y. Lin, "ROUGE: A Package for
// Automatic Evaluation of Summaries", 2004). Scores are F-measures from 0 to 1.

var rougeWord = regexp.MustCompile(`[a-z0-9]+`)

func rougeTokens(s string) []string { return rougeWord.FindAllString(strings.ToLower(s), -1) }

// rougeN compares the n-grams of an answer with those of the target.
func rougeN(answer, target []string, n int) float64 {
	both := common(ngrams(target, n), ngrams(answer, n))
	return fMeasure(both, float64(len(answer)-n+1), float64(len(target)-n+1))
}

// fMeasure is the F-measure of hits among the given and the right elements.
func fMeasure(hits, given, right float64) float64 {
	precision, recall := hits/max(given, 1), hits/max(right, 1)
	if precision+recall == 0 {
		return 0
	}
	return 2 * precision * recall / (precision + recall)
}

// rougeL compares an answer with the target by their longest common subsequence.
func rougeL(answer, target []string) float64 {
	found := make([]bool, len(target))
	markCommon(target, answer, found)
	hits := 0.0
	for _, f := range found {
		hits += indicator(f)
	}
	return fMeasure(hits, float64(len(answer)), float64(len(target)))
}

// rouge are the metrics of ROUGE, by name.
var rouge = map[string]func(answer, target string) float64{
	"rouge1":    func(a, t string) float64 { return rougeN(rougeTokens(a), rougeTokens(t), 1) },
	"rouge2":    func(a, t string) float64 { return rougeN(rougeTokens(a), rougeTokens(t), 2) },
	"rougeL":    func(a, t string) float64 { return rougeL(rougeTokens(a), rougeTokens(t)) },
	"rougeLsum": rougeLSum,
}

// rougeLSum compares the lines of an answer with those of the target by longest common
// subsequences.
func rougeLSum(answer, target string) float64 {
	a, t := rougeLines(answer), rougeLines(target)
	left := map[string]int{} // how often a word can still be a hit
	for _, w := range slices.Concat(a...) {
		left[w]++
	}
	leftTarget := map[string]int{}
	for _, w := range slices.Concat(t...) {
		leftTarget[w]++
	}
	hits := 0.0
	for _, line := range t {
		found := make([]bool, len(line))
		for _, other := range a {
			markCommon(line, other, found)
		}
		for i, w := range line {
			if found[i] && left[w] > 0 && leftTarget[w] > 0 {
				hits++
				left[w]--
				leftTarget[w]--
			}
		}
	}
	return fMeasure(hits, float64(len(slices.Concat(a...))), float64(len(slices.Concat(t...))))
}

func rougeLines(s string) (lines [][]string) {
	for line := range strings.SplitSeq(s, "\n") {
		if line != "" {
			lines = append(lines, rougeTokens(line))
		}
	}
	return lines
}

// markCommon sets found for the elements of a line that are in its longest common subsequence with
// another line.
func markCommon(line, other []string, found []bool) {
	table := make([][]int, len(line)+1) // lengths of common subsequences of the first i and j words
	for i := range table {
		table[i] = make([]int, len(other)+1)
		for j := range other {
			switch {
			case i == 0:
			case line[i-1] == other[j]:
				table[i][j+1] = table[i-1][j] + 1
			default:
				table[i][j+1] = max(table[i-1][j+1], table[i][j])
			}
		}
	}
	for i, j := len(line), len(other); i > 0 && j > 0; {
		switch {
		case line[i-1] == other[j-1]:
			found[i-1] = true
			i, j = i-1, j-1
		case table[i][j-1] > table[i-1][j]:
			j--
		default:
			i--
		}
	}
}
