package task

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is the largest task file in bytes.
const maxFile = 1 << 20

// Read reads a task file. Its errors name the file, and the line and key of what cannot be used; they wrap ErrUnsupported if the task
// is valid for the harness.
func Read(path string) (*Task, error) {
	keys, err := readKeys(path, nil)
	if err != nil {
		return nil, err
	}
	t := &Task{
		TargetDelimiter: " ", ShotDelimiter: "\n\n", Repeats: 1, Margin: DefaultMargin,
		Generation: Generation{MaxTokens: DefaultMaxTokens},
	}
	r := reader{task: t, path: path, folder: filepath.Dir(path)}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if err := r.key(name, keys[name]); err != nil {
			return nil, fmt.Errorf("read task %s:%d: %s: %w", path, keys[name].Line, name, err)
		}
	}
	if err := r.finish(); err != nil {
		return nil, fmt.Errorf("read task %s: %w", path, err)
	}
	return t, nil
}

// readKeys reads the keys of a file and of those that it includes, whose keys it replaces. within are the files that include it.
func readKeys(path string, within []string) (map[string]*yaml.Node, error) {
	if slices.Contains(within, path) {
		return nil, fmt.Errorf("read task %s: it includes itself", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("read task %s: it is not a file of at most %d bytes", path, maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read task %s: %w", path, err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read task %s: it is not a list of keys with values", path)
	}
	keys := map[string]*yaml.Node{}
	pairs := document.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		keys[pairs[i].Value] = pairs[i+1]
	}
	included, ok := keys["include"]
	if !ok {
		return keys, nil
	}
	delete(keys, "include")
	all, err := readKeys(filepath.Join(filepath.Dir(path), included.Value), append(within, path))
	if err != nil {
		return nil, err
	}
	maps.Copy(all, keys)
	return all, nil
}

type reader struct {
	task   *Task
	path   string
	folder string
	until  bool // the task has stop strings

	function string // the Python function of process_docs; empty for none
}

// ignored are keys of the harness that change nothing here: the names of data sets, which users bring as files, and what the harness
// uses for other purposes.
var ignored = []string{
	"tag", "task_alias", "dataset_path", "dataset_name", "dataset_kwargs", "training_split", "validation_split", "test_split", "fewshot_split",
	"should_decontaminate", "doc_to_decontamination_query", "group_alias",
}

// key reads one key.
func (r *reader) key(name string, n *yaml.Node) error {
	t := r.task
	if strings.HasPrefix(n.Tag, "!function") {
		if name != "process_docs" {
			return unsupported("the Python function %q", n.Value)
		}
		r.function = n.Value
		return nil
	}
	switch name {
	case "task":
		return n.Decode(&t.Name)
	case "output_type":
		return r.outputType(n)
	case "metadata":
		var m struct {
			Version string `yaml:"version"`
		}
		err := n.Decode(&m)
		t.Version = m.Version
		return err
	case "data":
		return r.file(n, &t.Data)
	case "fewshot_data":
		return r.file(n, &t.FewShotData)
	case "description":
		return n.Decode(&t.Description)
	case "doc_to_text":
		return t.Text.read(n)
	case "doc_to_target":
		return t.Target.read(n)
	case "doc_to_choice":
		return t.Choices.read(n)
	case "target_delimiter":
		return n.Decode(&t.TargetDelimiter)
	case "fewshot_delimiter":
		return n.Decode(&t.ShotDelimiter)
	case "num_fewshot":
		return n.Decode(&t.Shots)
	case "fewshot_config":
		return r.shots(n)
	case "generation_kwargs":
		return r.generation(n)
	case "repeats":
		return n.Decode(&t.Repeats)
	case "filter_list":
		return r.filters(n)
	case "metric_list":
		return r.metrics(n)
	case "cluster":
		return n.Decode(&t.Cluster)
	case "margin":
		return n.Decode(&t.Margin)
	case "chat":
		return n.Decode(&t.Chat)
	case "group", "aggregate_metric_list":
		return unsupported("a group of tasks: give the tasks themselves")
	}
	if slices.Contains(ignored, name) {
		return nil
	}
	return unsupported("the key")
}

// file reads the path of a file relative to the task's folder.
func (r *reader) file(n *yaml.Node, path *string) error {
	if err := n.Decode(path); err != nil {
		return err
	}
	if *path != "" && !filepath.IsAbs(*path) {
		*path = filepath.Join(r.folder, *path)
	}
	return nil
}

func (r *reader) outputType(n *yaml.Node) error {
	if err := n.Decode(&r.task.Type); err != nil {
		return err
	}
	switch r.task.Type {
	case Generate, MultipleChoice, LogLikelihood, Perplexity:
		return nil
	}
	return unsupported("type %q", n.Value)
}

func (r *reader) shots(n *yaml.Node) error {
	var c struct {
		Sampler string `yaml:"sampler"`
	}
	if err := n.Decode(&c); err != nil {
		return err
	}
	switch c.Sampler {
	case "", "default":
	case "first_n":
		r.task.ShotsInOrder = true
	default:
		return unsupported("sampler %q", c.Sampler)
	}
	return nil
}

func (r *reader) generation(n *yaml.Node) error {
	g := &r.task.Generation
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		var err error
		switch name {
		case "until":
			r.until = true
			g.Until, err = texts(value)
		case "max_gen_toks", "max_tokens", "max_new_tokens":
			err = value.Decode(&g.MaxTokens)
		case "temperature":
			err = value.Decode(&g.Temperature)
		case "top_p":
			err = value.Decode(&g.TopP)
		case "top_k":
			err = value.Decode(&g.TopK)
		case "seed":
			err = value.Decode(&g.Seed)
		case "do_sample": // temperature decides
		default:
			err = unsupported("generation setting %q", name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// texts reads a text or a list of texts.
func texts(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}, nil
	}
	var list []string
	err := n.Decode(&list)
	return list, err
}

// finish checks what keys require of each other, and sets what depends on several.
func (r *reader) finish() error {
	t := r.task
	if t.Name == "" {
		return errors.New(`"task", the name, is missing`)
	}
	if t.Type == "" {
		t.Type = Generate
	}
	if t.Type == Generate && !r.until {
		t.Generation.Until = []string{t.ShotDelimiter}
	}
	if t.Type == MultipleChoice && t.Choices.Missing() {
		return errors.New(`"doc_to_choice" is missing: a task of type multiple_choice has choices`)
	}
	if t.Target.Missing() || t.Text.Missing() && t.Type != Perplexity {
		return errors.New(`"doc_to_text" and "doc_to_target" are needed`)
	}
	if t.Chat && t.Type != Generate {
		return fmt.Errorf("a task of type %s scores texts, which a chat does not give: remove \"chat\"", t.Type)
	}
	if t.Shots < 0 || t.Repeats < 1 || t.Generation.MaxTokens < 1 {
		return fmt.Errorf("%d examples, %d repeats and %d tokens: at least 0, 1 and 1 are needed", t.Shots, t.Repeats, t.Generation.MaxTokens)
	}
	if len(t.Filters) == 0 {
		t.Filters = []Pipeline{{Name: "none"}}
	}
	if r.function != "" {
		if t.convert = conversions[t.Name+" "+r.function]; t.convert == nil {
			return unsupported("the Python function %q of task %q", r.function, t.Name)
		}
	}
	return r.checkMetrics()
}
