package eval

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/eval/task"
)

// Score scores the answers in the directory of a run. It writes the results and samples to that
// directory.
func Score(folder string, sets []*Set, groups []task.Group, c Config) (*Results, error) {
	answers, err := readAnswers(filepath.Join(folder, AnswersFile))
	if err != nil {
		return nil, err
	}
	judged, err := readJudged(folder)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.model != "" && !slices.Contains(c.ModelSHA256, a.model) {
			c.ModelSHA256 = append(c.ModelSHA256, a.model)
		}
	}
	slices.Sort(c.ModelSHA256)
	r := &Results{
		Results: map[string]map[string]float64{}, Versions: map[string]string{}, Shots: map[string]int{},
		HigherBetter: map[string]map[string]bool{}, Samples: map[string]Count{}, TaskHashes: map[string]string{}, Margins: map[string]float64{},
		Config: c, Date: time.Now().UTC().Truncate(time.Millisecond),
	}
	for _, s := range sets {
		samples, err := s.score(answers, judged)
		if err != nil {
			return nil, err
		}
		if err := writeLines(filepath.Join(folder, SamplesFile(s.Name)), samples); err != nil {
			return nil, fmt.Errorf("write samples: %w", err)
		}
		r.add(s, samples)
	}
	r.addGroups(groups)
	if err := writeJSON(filepath.Join(folder, ResultsFile), r); err != nil {
		return nil, fmt.Errorf("write results: %w", err)
	}
	return r, nil
}

// score scores the rows of a task. judged holds the judge's replies. It returns an error if a row
// has no answer yet.
func (s *Set) score(answers, judged map[string]*answer) ([]Sample, error) {
	var all []Sample
	for i := range s.Items {
		item := &s.Items[i]
		var given []*answer
		for _, r := range s.requests(item) {
			a, ok := answers[r.CustomID]
			if !ok {
				return nil, s.unanswered(item)
			}
			given = append(given, a)
		}
		all = append(all, s.samples(item, given, judged)...)
	}
	return all, nil
}

func (s *Set) unanswered(item *Item) error {
	return fmt.Errorf("score task %s: row %d has no answer yet: run the evaluation again to answer the missing rows", s.Name, item.Number+1)
}

func (s *Set) samples(item *Item, given []*answer, judged map[string]*answer) []Sample {
	base := s.sample(item)
	for _, a := range given {
		base.Responses = append(base.Responses, a.texts...)
		base.Truncated = base.Truncated || a.truncated && s.Type.Generates()
		base.Failed = cmp.Or(base.Failed, a.failed)
		base.Tokens += a.tokens
		base.Latency = max(base.Latency, a.latency)
	}
	if base.Failed != "" {
		base.Filter = s.Filters[0].Name
		return []Sample{base}
	}
	switch s.Type {
	case task.MultipleChoice:
		return []Sample{s.choice(base, item, given)}
	case task.LogLikelihood, task.Perplexity:
		return []Sample{s.likelihood(base, item, given[0])}
	}
	list := make([]Sample, len(s.Filters))
	for i := range s.Filters {
		list[i] = s.generated(base, item, &s.Filters[i], judged)
	}
	return list
}

func (s *Set) sample(item *Item) Sample {
	p := &item.Prompt
	target := strings.Join(p.Targets, "\n")
	if p.Right >= 0 && p.Right < len(p.Choices) {
		target = p.Choices[p.Right]
	}
	sample := Sample{
		DocID: item.Number, Doc: item.Doc, Target: target, Context: p.Context, Filter: "none", Scores: map[string]float64{}, Cluster: item.Cluster,
		DocHash: sum(string(item.Doc)), PromptHash: sum(append([]string{p.Context}, p.Choices...)...), TargetHash: sum(target),
	}
	for _, m := range s.Metrics {
		sample.Metrics = append(sample.Metrics, m.Name)
	}
	return sample
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *Set) generated(base Sample, item *Item, p *task.Pipeline, judged map[string]*answer) Sample {
	base.Filter, base.Filtered, base.Scores, base.statistics = p.Name, p.Apply(base.Responses, &item.Prompt), map[string]float64{}, map[string][]float64{}
	if s.Type == task.Judge {
		return s.judged(base, item, judged)
	}
	if item.Prompt.Instructions != nil {
		return s.followed(base, item)
	}
	if item.Prompt.Score != nil {
		return base.scoredBy(item, task.Response{Answers: base.Filtered})
	}
	n := len(base.Filtered)
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if c := m.Corpus(); c != nil {
			if n != 1 || len(item.Prompt.Targets) != 1 {
				base.Failed = fmt.Sprintf("%s needs one answer and one target, but the row has %d and %d", m.Name, n, len(item.Prompt.Targets))
				return base
			}
			base.addStatistics(m.Name, c, c.Answer(base.Filtered[0], item.Prompt.Targets[0]))
			continue
		}
		sum := 0.0
		for _, a := range base.Filtered {
			sum += m.Score(a, item.Prompt.Targets)
		}
		switch {
		case m.K > n:
			base.Failed = fmt.Sprintf("%d answers are left after the filters, but %s needs %d", n, m.Name, m.K)
			return base
		case m.K > 0:
			base.Scores[m.Name] = task.PassAtK(n, int(sum), m.K)
		default:
			base.Scores[m.Name] = sum / float64(n)
		}
	}
	return base
}

// scoredBy returns the sample with the scores of the task's own metrics.
func (s Sample) scoredBy(item *Item, r task.Response) Sample {
	scores, err := item.Prompt.Score(r)
	if err != nil {
		s.Failed = err.Error()
		return s
	}
	s.Scores, s.Weights, s.Undecided = scores.Values, scores.Weights, scores.Undecided
	return s
}

func (s *Sample) addStatistics(metric string, c *task.Corpus, statistics []float64) {
	s.statistics[metric] = statistics
	if c.Row > 0 {
		s.Scores[metric] = c.Value(statistics) / c.Row
	}
}

func (s *Set) choiceText(p *task.Prompt, i int) string {
	if p.Contexts != nil {
		return strings.TrimPrefix(p.Contexts[i], p.Context)
	}
	return strings.TrimPrefix(p.Choices[i], s.TargetDelimiter)
}

func (s *Set) followed(base Sample, item *Item) Sample {
	strict, loose := item.Prompt.Follow(task.Response{Answers: base.Filtered}.Answer())
	n := len(item.Prompt.Instructions)
	base.Weights = map[string]float64{task.InstructionStrict: float64(n), task.InstructionLoose: float64(n)}
	base.Scores[task.PromptStrict], base.Scores[task.PromptLoose] = indicator(strict == n), indicator(loose == n)
	base.Scores[task.InstructionStrict] = float64(strict) / float64(n)
	base.Scores[task.InstructionLoose] = float64(loose) / float64(n)
	return base
}

func (s *Set) choice(base Sample, item *Item, given []*answer) Sample {
	p := &item.Prompt
	base.Responses, base.statistics = nil, map[string][]float64{}
	for i, a := range given {
		text := p.ContextOf(i) + p.Choices[i]
		a.logprobs.align(text)
		if boundary(p.ContextOf(i)) == 0 {
			a.logprobs.skipFirst(text)
		}
		total, greedy, ok := a.logprobs.between(boundary(p.ContextOf(i)), length(text))
		if !ok {
			base.Failed = a.logprobs.missing(fmt.Sprintf("choice %d has no log-probabilities", i+1), p.ContextOf(i))
			return base
		}
		base.Greedy = append(base.Greedy, greedy)
		base.Logprobs, base.Choices = append(base.Logprobs, total), append(base.Choices, s.choiceText(p, i))
	}
	if p.Score != nil {
		return base.scoredBy(item, task.Response{Logprobs: base.Logprobs, Greedy: base.Greedy})
	}
	plain := func(i int) string { return base.Choices[i] }
	for _, m := range s.Metrics {
		var size func(i int) int
		switch m.Name {
		case "acc_norm":
			size = func(i int) int { return length(plain(i)) }
		case "acc_bytes":
			size = func(i int) int { return len(plain(i)) }
		case "exact_match":
			base.Scores[m.Name] = indicator(slices.ContainsFunc(append(p.Rights, p.Right), func(i int) bool { return base.Greedy[i] }))
			continue
		case "brier_score":
			base.Scores[m.Name] = task.Brier(base.Logprobs, p.Right)
			continue
		}
		best := task.Likeliest(base.Logprobs, size)
		base.Scores[m.Name] = indicator(best == p.Right || slices.Contains(p.Rights, best))
		if c := m.Corpus(); c != nil {
			base.addStatistics(m.Name, c, c.Choice(p.Right, best))
		}
	}
	return base
}

func (s *Set) likelihood(base Sample, item *Item, a *answer) Sample {
	base.Responses = nil
	p := &item.Prompt
	text := strings.Join(p.Targets, "")
	from, to := boundary(p.Context), length(p.Context+text)
	a.logprobs.align(p.Context + text)
	if s.Type == task.Perplexity {
		from, to = 0, length(text)
	}
	if from == 0 {
		a.logprobs.skipFirst(text)
	}
	total, greedy, ok := a.logprobs.between(from, to)
	if !ok {
		base.Failed = a.logprobs.missing("the text has no log-probabilities", p.Context)
		return base
	}
	if p.Counted != "" {
		text = p.Counted
	}
	if p.Score != nil {
		r := task.Response{Logprobs: []float64{total}}
		if s.Type == task.LogLikelihood {
			r.Greedy = []bool{greedy}
		}
		return base.scoredBy(item, r)
	}
	base.Logprob, base.Greedy, base.Weights = total, []bool{greedy}, map[string]float64{}
	for _, m := range s.Metrics {
		switch m.Name {
		case "acc":
			base.Scores[m.Name] = indicator(greedy)
		case "perplexity":
			base.Scores[m.Name], base.Weights[m.Name] = total, 1
		case "word_perplexity":
			base.Scores[m.Name], base.Weights[m.Name] = total, float64(task.Words(text))
		default: // byte_perplexity, bits_per_byte
			base.Scores[m.Name], base.Weights[m.Name] = total, float64(len(text))
		}
	}
	return base
}
