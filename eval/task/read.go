package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/internal/ordered"
)

// maxFile is the maximum size of a task file in bytes.
const maxFile = 1 << 20

// Read reads a task file. Errors name the file, the line and the key. An error wraps ErrUnsupported if the file uses a feature of the harness
// that this package lacks.
func Read(path string) (*Task, error) {
	keys, err := readKeys(path, nil)
	if err != nil {
		return nil, err
	}
	t := &Task{
		Path: path, TargetDelimiter: " ", ShotDelimiter: "\n\n", Repeats: 1, Margin: DefaultMargin,
		Generation: Generation{MaxTokens: DefaultMaxTokens},
	}
	r := reader{task: t, path: path, folder: filepath.Dir(path)}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if err := r.key(name, keys[name].Node); err != nil {
			return nil, fmt.Errorf("read task %s:%d: %s: %w", keys[name].file, keys[name].Line, name, err)
		}
	}
	if err := r.finish(); err != nil {
		return nil, fmt.Errorf("read task %s: %w", path, err)
	}
	return t, nil
}

// keyValue is the value of a key in a task file.
type keyValue struct {
	*yaml.Node
	file string // path of the file that has the key: the task's file or an included one
}

// readKeys reads the keys of a file and of the files that it includes. If both have a key, the value is that of the including file. within
// lists the files through whose "include" this file is read.
func readKeys(path string, within []string) (map[string]*keyValue, error) {
	if slices.Contains(within, path) {
		return nil, fmt.Errorf("read task %s: the file includes itself", path)
	}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read task %s: %w", path, err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read task %s: the file is not a YAML mapping (KEY: VALUE)", path)
	}
	keys := map[string]*keyValue{}
	pairs := document.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		keys[pairs[i].Value] = &keyValue{pairs[i+1], path}
	}
	included, ok := keys["include"]
	if !ok {
		return keys, nil
	}
	delete(keys, "include")
	other := filepath.Join(filepath.Dir(path), included.Value)
	if isBuiltin(path) {
		other = strings.TrimSuffix(other, ".yaml")
	}
	all, err := readKeys(other, append(within, path))
	if err != nil {
		return nil, err
	}
	maps.Copy(all, keys)
	return all, nil
}

// readFile returns the text of a task file, or of a built-in task if path is the name of one.
func readFile(path string) ([]byte, error) {
	if isBuiltin(path) {
		return builtin.ReadFile("builtin/" + path + ".yaml")
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(path, "./") {
		return nil, fmt.Errorf("read task: %q is neither a file nor a built-in task (the built-in tasks are %s)", path, strings.Join(Builtin(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("read task %s: a task must be a file of at most %d bytes", path, maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	return text, nil
}

type reader struct {
	task   *Task
	path   string
	folder string
	until  bool // the task has stop strings

	convert, results string // names of the Python functions of process_docs and process_results; empty for none
}

// ignored lists keys of the harness that have no effect here: names of data sets, since users give the rows as files, and keys that do not
// change prompts or scores.
var ignored = []string{
	"tag", "task_alias", "dataset_path", "dataset_name", "dataset_kwargs", "training_split", "validation_split", "test_split", "fewshot_split",
	"should_decontaminate", "doc_to_decontamination_query", "group_alias",
}

// key reads one key of a task file.
func (r *reader) key(name string, n *yaml.Node) error {
	t := r.task
	if function, ok := functionName(n); ok {
		switch name {
		case "process_docs":
			r.convert = function
			return nil
		case "process_results":
			r.results = function
			return nil
		case "doc_to_text", "doc_to_target", "doc_to_choice":
		default:
			return unsupportedFunction(function)
		}
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
		return t.Description.read(n)
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
		return r.examples(n)
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
	case "judge":
		return r.judge(n)
	case "group", "aggregate_metric_list":
		return errors.New("the file is a group of tasks, not a task")
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
	case Generate, MultipleChoice, LogLikelihood, Perplexity, Judge:
		return nil
	}
	return unsupported("type %q", n.Value)
}

// examples reads the key fewshot_config.
func (r *reader) examples(n *yaml.Node) error {
	t := r.task
	pairs, err := mapping(n)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := pairs[i].Value, pairs[i+1]
		var err error
		switch name {
		case "sampler":
			switch value.Value {
			case "default":
			case "first_n":
				t.ShotsInOrder = true
			default:
				err = unsupported("%q", value.Value)
			}
		case "samples":
			t.Examples, err = objects(value)
			t.ShotsInOrder = true
		case "seed":
			err = value.Decode(&t.ShotSeed)
		case "same":
			err = value.Decode(&t.ShotColumn)
		case "split": // the user gives the rows as a file
		default:
			err = unsupported("the key")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// objects reads a YAML list of rows.
func objects(n *yaml.Node) ([]*ordered.Object, error) {
	if name, ok := functionName(n); ok {
		return nil, unsupportedFunction(name)
	}
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("the value must be a list of rows")
	}
	var list []*ordered.Object
	for _, each := range n.Content {
		v, err := valueOf(each)
		if err != nil {
			return nil, err
		}
		o, ok := v.(*ordered.Object)
		if !ok {
			return nil, errors.New("each element must be a row: a mapping from columns to values")
		}
		list = append(list, o)
	}
	return list, nil
}

// valueOf converts a YAML value to the types of package ordered.
func valueOf(n *yaml.Node) (ordered.Value, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return ordered.ParseJSON(text)
}

// mapping returns the nodes of a YAML mapping: the first key, its value, the second key, and so on. It returns nothing for an empty value.
func mapping(n *yaml.Node) ([]*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode && n.Tag != "!!null" {
		return nil, errors.New("the value must be a mapping, such as {key: value}")
	}
	return n.Content, nil
}

func (r *reader) generation(n *yaml.Node) error {
	g := &r.task.Generation
	pairs, err := mapping(n)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := pairs[i].Value, pairs[i+1]
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
		case "do_sample": // ignored: the temperature decides whether tokens are sampled
		default:
			err = unsupported("the setting")
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

// finish checks the conditions that concern several keys, and sets the fields that depend on several keys.
func (r *reader) finish() error {
	t := r.task
	if t.Name == "" {
		return errors.New(`the key "task", the name of the task, is missing`)
	}
	if t.Type == "" {
		t.Type = Generate
	}
	if t.Type == Generate && !r.until {
		t.Generation.Until = []string{t.ShotDelimiter}
	}
	if t.Type == MultipleChoice && t.Choices.Missing() {
		return errors.New(`"doc_to_choice" is missing: a task of type multiple_choice needs choices`)
	}
	if t.Target.Missing() && t.Type != Judge || t.Text.Missing() && t.Type != Perplexity {
		return errors.New(`"doc_to_text" or "doc_to_target" is missing: a task needs both, except that type judge needs no doc_to_target, and type loglikelihood_rolling no doc_to_text`)
	}
	if t.Type == Judge && t.Rubric == nil {
		return errors.New(`"judge" is missing: a task of type judge needs a rubric`)
	}
	if t.Type != Judge && t.Rubric != nil {
		return fmt.Errorf(`"judge" is set, but the task is of type %s: remove "judge", or change the type to judge`, t.Type)
	}
	if t.Chat && !t.Type.Generates() {
		return fmt.Errorf("a task of type %s scores log-probabilities of a prompt, which chats do not return: remove \"chat\"", t.Type)
	}
	if t.Shots < 0 || t.Repeats < 1 || t.Generation.MaxTokens < 1 {
		return fmt.Errorf("num_fewshot is %d, repeats is %d and max_gen_toks is %d: they must be at least 0, 1 and 1", t.Shots, t.Repeats, t.Generation.MaxTokens)
	}
	if len(t.Filters) == 0 {
		t.Filters = []Pipeline{{Name: "none"}}
	}
	if r.convert != "" {
		if t.convert = conversions[t.Name+" "+r.convert]; t.convert == nil {
			return unsupportedFunction(r.convert)
		}
	}
	known := metrics[t.Type]
	if r.results != "" {
		f, ok := resultFunctions[t.Name+" "+r.results]
		if !ok {
			return unsupportedFunction(r.results)
		}
		known, t.prepare = f.metrics, f.prepare
	}
	return r.checkMetrics(known)
}
