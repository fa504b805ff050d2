package task

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// Corpus computes a metric that is not the mean of the scores of rows, such as BLEU. Rows have
// statistics, which are added up; the metric is a function of the sums.
type Corpus struct {
	// Answer returns the statistics of a generated answer. It is nil for metrics of choices.
	Answer func(answer, target string) []float64
	// Choice returns the statistics of a row whose right choice and likeliest choice are given. It
	// is nil for metrics of answers.
	Choice func(right, likeliest int) []float64
	// Value returns the metric of sums of statistics.
	Value func(sums []float64) float64
	// Slow is set for metrics whose standard error the harness computes from few samples.
	Slow bool
	// Uncertain is set for metrics of which the harness computes no standard error.
	Uncertain bool
	// Row is the largest value of a row; the score of a row is its value divided by Row. If it is
	// 0, the score of a row is whether the likeliest choice is right.
	Row float64
}

// corpora are the metrics of a Corpus, by aggregation.
var corpora = map[string]*Corpus{
	"bleu":   {Answer: func(a, t string) []float64 { return bleuStatistics(bleuTokens(a), bleuTokens(t)) }, Value: bleu, Slow: true, Row: 100},
	"chrf":   {Answer: func(a, t string) []float64 { return chrfStatistics(a, t, 0) }, Value: chrf, Slow: true, Row: 100},
	"chrf++": {Answer: func(a, t string) []float64 { return chrfStatistics(a, t, 2) }, Value: chrf, Slow: true, Row: 100},
	"ter":    {Answer: terStatistics, Value: ter, Slow: true, Row: 100},
	"f1":     {Choice: f1Statistics, Value: f1},

	"matthews_corrcoef": {Choice: mccStatistics, Value: mcc},
	"weighted_f1":       {Choice: classStatistics, Value: weightedF1, Uncertain: true},
}

// Corpus returns how the metric is computed if it is not the mean of the scores of rows, else nil.
func (m *Metric) Corpus() *Corpus {
	if m.aggregate != nil {
		return nil
	}
	return corpora[m.Aggregation]
}

// bleuOrder is the length of the longest n-grams of BLEU.
const bleuOrder = 4

// bleuStatistics returns the numbers of tokens of an answer and a target, and for each length of
// n-grams the number of n-grams that both have and the number of the answer's.
func bleuStatistics(a, t []string) []float64 {
	list := []float64{float64(len(a)), float64(len(t))}
	for n := 1; n <= bleuOrder; n++ {
		of, in := ngrams(a, n), ngrams(t, n)
		list = append(list, common(of, in), float64(max(0, len(a)-n+1)))
	}
	return list
}

// bleu is SacreBLEU's corpus BLEU with its default settings (M. Post, "A Call for Clarity in
// Reporting BLEU Scores", arXiv 1804.08771): exponential smoothing, one reference.
func bleu(sums []float64) float64 {
	answer, target, pairs := sums[0], sums[1], sums[2:]
	matched, smooth, logs := false, 1.0, 0.0
	for n := range bleuOrder {
		right, total := pairs[2*n], pairs[2*n+1]
		matched = matched || right > 0
		switch {
		case total == 0:
			return 0 // a precision of 0 gives a score of 0
		case right == 0:
			smooth *= 2
			logs += math.Log(100 / (smooth * total))
		default:
			logs += math.Log(100 * right / total)
		}
	}
	if !matched {
		return 0
	}
	brevity := 1.0
	if answer < target {
		brevity = math.Exp(1 - target/answer)
	}
	return brevity * math.Exp(logs/bleuOrder)
}

// tokens13a are the replacements of SacreBLEU's tokenizer 13a.
var tokens13a = []struct {
	from *regexp2.Regexp
	to   string
}{
	{regexp2.MustCompile(`([\{-\~\[-\`+"`"+` -\&\(-\+\:-\@\/])`, regexp2.None), " $1 "},
	{regexp2.MustCompile(`([^0-9])([\.,])`, regexp2.None), "$1 $2 "},
	{regexp2.MustCompile(`([\.,])([^0-9])`, regexp2.None), " $1 $2"},
	{regexp2.MustCompile(`([0-9])(-)`, regexp2.None), "$1 $2 "},
}

var entities = strings.NewReplacer("&quot;", `"`, "&amp;", "&", "&lt;", "<", "&gt;", ">")

func bleuTokens(s string) []string {
	s = strings.TrimSpace(s)
	s = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(s, "<skipped>", ""), "-\n", ""), "\n", " ")
	s = " " + entities.Replace(s) + " "
	for _, r := range tokens13a {
		if changed, err := r.from.Replace(s, r.to, -1, -1); err == nil {
			s = changed
		}
	}
	return strings.Fields(s)
}

// internationalTokens are the replacements of SacreBLEU's tokenizer intl.
var internationalTokens = func() func(s string) []string {
	separate := []struct {
		from *regexp2.Regexp
		to   string
	}{
		{regexp2.MustCompile(`(\P{N})(\p{P})`, regexp2.None), "$1 $2 "},
		{regexp2.MustCompile(`(\p{P})(\P{N})`, regexp2.None), " $1 $2"},
		{regexp2.MustCompile(`(\p{S})`, regexp2.None), " $1 "},
	}
	return func(s string) []string {
		s = strings.TrimRight(s, " \t\n")
		for _, r := range separate {
			if changed, err := r.from.Replace(s, r.to, -1, -1); err == nil {
				s = changed
			}
		}
		return strings.Fields(s)
	}
}()

func ngrams(tokens []string, n int) map[string]int {
	all := map[string]int{}
	for i := 0; i+n <= len(tokens); i++ {
		all[strings.Join(tokens[i:i+n], " ")]++
	}
	return all
}

// common returns the number of elements that two multisets have in common.
func common(a, b map[string]int) float64 {
	n := 0
	for key, count := range a {
		n += min(count, b[key])
	}
	return float64(n)
}

// chrfOrder is the length of the longest n-grams of characters of chrF.
const chrfOrder = 6

// chrfStatistics returns, for each length of n-grams of characters and then of words, the number of
// n-grams of the answer, of the target, and of both.
func chrfStatistics(answer, target string, words int) []float64 {
	var list []float64
	add := func(a, t []string, n int) {
		of, in := ngrams(a, n), ngrams(t, n)
		total := float64(max(0, len(a)-n+1))
		if len(in) == 0 {
			total = 0
		}
		list = append(list, total, float64(max(0, len(t)-n+1)), common(of, in))
	}
	letters := func(s string) []string { return strings.Split(strings.Join(strings.Fields(s), ""), "") }
	a, t := letters(answer), letters(target)
	for n := 1; n <= chrfOrder; n++ {
		add(a, t, n)
	}
	a, t = chrfWords(answer), chrfWords(target)
	for n := 1; n <= words; n++ {
		add(a, t, n)
	}
	return list
}

// chrfWords splits a text into words. Punctuation at one end of a word is a word.
func chrfWords(s string) []string {
	var list []string
	for _, w := range strings.Fields(s) {
		first, size := utf8.DecodeRuneInString(w)
		last := w[len(w)-1]
		switch {
		case size == len(w):
			list = append(list, w)
		case strings.IndexByte(punctuation, last) >= 0:
			list = append(list, w[:len(w)-1], w[len(w)-1:])
		case strings.ContainsRune(punctuation, first):
			list = append(list, w[:size], w[size:])
		default:
			list = append(list, w)
		}
	}
	return list
}

// chrf is SacreBLEU's corpus chrF with its default settings (M. Popović, "chrF: character n-gram
// F-score for automatic MT evaluation", 2015): beta 2, lengths of n-grams without any are left out.
func chrf(sums []float64) float64 {
	const factor = 4 // the square of beta
	var precision, recall, orders float64
	for i := 0; i < len(sums); i += 3 {
		if answer, target := sums[i], sums[i+1]; answer > 0 && target > 0 {
			precision, recall, orders = precision+sums[i+2]/answer, recall+sums[i+2]/target, orders+1
		}
	}
	if precision+recall == 0 {
		return 0
	}
	precision, recall = precision/orders, recall/orders
	return 100 * (1 + factor) * precision * recall / (factor*precision + recall)
}

// f1Statistics returns the numbers of true positives and of wrong rows. Choice 1 is positive.
func f1Statistics(right, likeliest int) []float64 {
	return []float64{indicator(right == 1 && likeliest == 1), indicator(right != likeliest)}
}

func f1(sums []float64) float64 {
	if sums[0] == 0 {
		return 0
	}
	return 2 * sums[0] / (2*sums[0] + sums[1])
}

// mccStatistics returns the number of rows, the number of right ones, and for each choice how often
// it is right and how often it is the likeliest.
func mccStatistics(right, likeliest int) []float64 {
	list := make([]float64, 2+2*(max(right, likeliest)+1))
	list[0], list[1] = 1, indicator(right == likeliest)
	list[2+2*right]++
	list[3+2*likeliest]++
	return list
}

// mcc is the Matthews correlation coefficient for any number of choices (J. Gorodkin, "Comparing
// two K-category assignments by a K-category correlation coefficient", 2004).
func mcc(sums []float64) float64 {
	rows, equal := sums[0], sums[1]
	var both, right, likeliest float64
	for i := 2; i < len(sums); i += 2 {
		both += sums[i] * sums[i+1]
		right += sums[i] * sums[i]
		likeliest += sums[i+1] * sums[i+1]
	}
	if spread := (rows*rows - right) * (rows*rows - likeliest); spread != 0 {
		return (equal*rows - both) / math.Sqrt(spread)
	}
	return 0
}

// classStatistics returns, for each choice, how often it is right and the likeliest, how often it
// is right, and how often it is the likeliest.
func classStatistics(right, likeliest int) []float64 {
	list := make([]float64, 3*(max(right, likeliest)+1))
	list[3*right] = indicator(right == likeliest)
	list[3*right+1] = 1
	list[3*likeliest+2] = 1
	return list
}

// weightedF1 is the mean of the F1 scores of choices, weighted by how often they are right.
func weightedF1(sums []float64) float64 {
	total, rows := 0.0, 0.0
	for i := 0; i < len(sums); i += 3 {
		both, right, likeliest := sums[i], sums[i+1], sums[i+2]
		rows += right
		if right > 0 {
			total += right * 2 * both / (right + likeliest)
		}
	}
	return total / rows
}

// Brier returns the Brier score of choices: the sum of the squared differences between their
// probabilities and those of a certain prediction of the right one. logprobs are log-probabilities
// of the choices, which are scaled so that the probabilities add up to 1.
func Brier(logprobs []float64, right int) float64 {
	sum := 0.0
	for i, p := range Probabilities(logprobs) {
		d := p - indicator(i == right)
		sum += d * d
	}
	return sum
}

// Probabilities returns the probabilities of choices from their log-probabilities, scaled so that
// they add up to 1.
func Probabilities(logprobs []float64) []float64 {
	highest, total := slices.Max(logprobs), 0.0
	p := make([]float64, len(logprobs))
	for i, l := range logprobs {
		p[i] = math.Exp(l - highest)
		total += p[i]
	}
	for i := range p {
		p[i] /= total
	}
	return p
}

// needsRight are the metrics of choices that need a right choice in every row.
var needsRight = map[string]bool{"f1": true, "mcc": true, "brier_score": true, "exact_match": true}

// NeedsRight returns the name of a metric that needs a right choice in every row, or an empty text.
func (t *Task) NeedsRight() string {
	for _, m := range t.Metrics {
		if t.Type == MultipleChoice && needsRight[m.Name] && m.aggregate == nil && t.results.score == nil {
			return m.Name
		}
	}
	return ""
}

// higherBetter reports whether a higher value of a metric is better.
func higherBetter(metric string) bool {
	return !strings.Contains(metric, "perplexity") && !slices.Contains([]string{"bits_per_byte", "brier_score", "ter"}, metric)
}
