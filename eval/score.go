package eval

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/ordered"
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
		Results: map[string]Values{}, Versions: map[string]string{}, Shots: map[string]int{},
		HigherBetter: map[string]map[string]bool{}, Samples: map[string]Count{}, TaskHashes: map[string]string{}, ScoreHashes: map[string]string{}, Margins: map[string]float64{},
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
		if err := r.add(s, samples); err != nil {
			return nil, err
		}
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
	for i := range s.Metrics {
		if m := &s.Metrics[i]; !m.Computed() || s.Type == task.MultipleChoice {
			sample.Metrics = append(sample.Metrics, m.Name)
		}
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
	base.Filter, base.Scores, base.statistics, base.items = p.Name, map[string]float64{}, map[string][]float64{}, map[string]ordered.Value{}
	filtered, err := p.Apply(base.Responses, &item.Prompt)
	if err != nil {
		base.Failed = err.Error()
		return base
	}
	base.Filtered = filtered.Texts()
	if s.Type == task.Judge {
		return s.judged(base, item, judged)
	}
	if item.Prompt.Instructions != nil {
		return s.followed(base, item)
	}
	if item.Prompt.Score != nil {
		return s.scoredBy(base, item, task.Response{Answers: base.Filtered, Filtered: filtered.Value()})
	}
	n := len(base.Filtered)
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if m.Computed() {
			if err := base.compute(m, item, filtered); err != nil {
				base.Failed = err.Error()
				return base
			}
			continue
		}
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
		case n == 0:
			base.Scores[m.Name] = 0
		default:
			base.Scores[m.Name] = sum / float64(n)
		}
		if m.Aggregated() {
			base.items[m.Name] = base.Scores[m.Name]
		}
	}
	return base
}

// scoredBy returns the sample with the scores of the task's own metrics.
func (s *Set) scoredBy(base Sample, item *Item, r task.Response) Sample {
	scores, err := item.Prompt.Score(r)
	if err != nil {
		base.Failed = err.Error()
		return base
	}
	base.Scores, base.Weights, base.Undecided = scores.Values, scores.Weights, scores.Undecided
	base.statistics, base.items = map[string][]float64{}, map[string]ordered.Value{}
	if scores.Items != nil { // the function is one in Python
		base.by, base.Metrics = map[string]*task.Metric{}, nil
		base.addComputed(&scores, s.Metric)
	}
	return base
}

// compute adds the scores of a metric that a Python function computes or aggregates.
func (s *Sample) compute(m *task.Metric, item *Item, given task.Filtered) error {
	scores, err := m.Compute(&item.Prompt, given)
	if err != nil {
		return err
	}
	if s.by == nil {
		s.by = map[string]*task.Metric{}
	}
	s.addComputed(&scores, m.As)
	return nil
}

// addComputed adds scores of a Python function. metricOf returns the metric of a name.
func (s *Sample) addComputed(scores *task.Scores, metricOf func(name string) *task.Metric) {
	maps.Copy(s.Scores, scores.Values)
	maps.Copy(s.items, scores.Items)
	for name, statistics := range scores.Statistics {
		s.addStatistics(name, metricOf(name).Corpus(), statistics)
	}
	for _, name := range scores.Names() {
		s.by[name] = metricOf(name)
		if !slices.Contains(s.Metrics, name) {
			s.Metrics = append(s.Metrics, name)
		}
	}
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
	base.Responses, base.statistics, base.items = nil, map[string][]float64{}, map[string]ordered.Value{}
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
		return s.scoredBy(base, item, task.Response{Logprobs: base.Logprobs, Greedy: base.Greedy})
	}
	plain := func(i int) string { return base.Choices[i] }
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if passed, ok := m.Passed(p, base.Logprobs); ok && m.Aggregated() {
			base.items[m.Name] = passed
		}
		var size func(i int) int
		switch m.Name {
		case "likelihood":
			continue
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
		if m.Aggregated() && base.items[m.Name] == nil {
			base.items[m.Name] = base.Scores[m.Name]
		}
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
	base.Logprob, base.Greedy = total, []bool{greedy}
	if p.Score != nil {
		r := task.Response{Logprobs: []float64{total}}
		if s.Type == task.LogLikelihood {
			r.Greedy = []bool{greedy}
		}
		return s.scoredBy(base, item, r)
	}
	base.Weights = map[string]float64{}
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
