package task

import (
	"cmp"
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

	"github.com/ingot-run/ingot/eval/taskcode"
	"github.com/ingot-run/ingot/internal/ordered"
)

// maxFile is the maximum size of a task file in bytes.
const maxFile = 1 << 20

// maxName is the maximum size of a task's name in bytes: names of files may have 255.
const maxName = 200

// Read reads a task file. Errors name the file, the line and the key. An error wraps ErrUnsupported
// if the file uses a feature of the harness that this package lacks.
func Read(path string) (*Task, error) { return ReadTrusted(path, nil) }

// ReadTrusted reads a task file as Read does. Python functions that Ingot does not have run in
// python; nil refuses them.
func ReadTrusted(path string, python *taskcode.Process) (*Task, error) {
	keys, err := readKeys(path, nil)
	if err != nil {
		return nil, err
	}
	return readTask(path, keys, python)
}

// readTask reads a task from its keys. path is the file of the task.
func readTask(path string, keys map[string]*keyValue, python *taskcode.Process) (*Task, error) {
	t := &Task{
		Path: path, Form: Form{TargetDelimiter: " ", ShotDelimiter: "\n\n"}, Repeats: 1, Margin: DefaultMargin, Multiturn: true, ShotSeed: DefaultShotSeed,
		Generation: Generation{MaxTokens: DefaultMaxTokens},
	}
	r := reader{task: t, path: path, folder: filepath.Dir(path), python: python}
	names := slices.Sorted(maps.Keys(keys))
	slices.SortStableFunc(names, func(a, b string) int { return first(a) - first(b) })
	for _, name := range names {
		r.here = filepath.Dir(keys[name].file)
		if err := r.key(name, keys[name].Node); err != nil {
			return nil, fmt.Errorf("read task %s:%d: %s: %w", keys[name].file, keys[name].Line, name, err)
		}
	}
	t.Config = configOf(keys)
	err := r.finish()
	if err == nil {
		t.Scoring, err = r.scoring(keys)
	}
	if err != nil {
		return nil, fmt.Errorf("read task %s: %w", path, err)
	}
	return t, nil
}

// first returns 0 for the keys with the task's name and type, which other keys need, and 1 for
// others.
func first(key string) int {
	if key == "task" || key == "output_type" {
		return 0
	}
	return 1
}

// keyValue is the value of a key in a task file.
type keyValue struct {
	*yaml.Node
	file string // path of the file that has the key: the task's file or an included one
}

// readKeys reads the keys of a file and of the files that it includes. If both have a key, the
// value is that of the including file. within lists the files through whose "include" this file is
// read.
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
	keepLast(&document)
	keys := map[string]*keyValue{}
	for key, value := range inPairs(document.Content[0].Content) {
		keys[key.Value] = &keyValue{value, path}
	}
	included, ok := keys["include"]
	if !ok {
		return keys, nil
	}
	delete(keys, "include")
	files, err := texts(included.Node)
	if err != nil || len(files) == 0 || slices.Contains(files, "") {
		return nil, fmt.Errorf("read task %s:%d: include: the value must be the path of a file, or a list of paths", path, included.Line)
	}
	all := map[string]*keyValue{}
	for _, file := range files {
		other := relativeTo(filepath.Dir(path), file)
		if isBuiltin(path) {
			other = strings.TrimSuffix(other, ".yaml")
		}
		of, err := readKeys(other, append(within, path))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, of)
	}
	maps.Copy(all, keys)
	return all, nil
}

// keepLast removes the keys of mappings that occur again in the same mapping: as in the harness,
// the last value counts.
func keepLast(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		last := map[string]*yaml.Node{}
		for key := range inPairs(n.Content) {
			last[key.Value] = key
		}
		var kept []*yaml.Node
		for key, value := range inPairs(n.Content) {
			if key.Kind != yaml.ScalarNode || last[key.Value] == key {
				kept = append(kept, key, value)
			}
		}
		n.Content = kept
	}
	for _, each := range n.Content {
		keepLast(each)
	}
}

// readFile returns the text of a task file, or of a built-in task if path is the name of one.
func readFile(path string) ([]byte, error) {
	if isBuiltin(path) {
		return builtin.ReadFile("builtin/" + path + ".yaml")
	}
	text, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(path, "./") {
		return nil, fmt.Errorf("read task: %q is neither a file nor a built-in task (the built-in tasks are %s)", path, strings.Join(Builtin(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	return text, nil
}

// readRegular reads a file, but no device, which may have no end.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		err = fmt.Errorf("%s: it must be a file of at most %d bytes", path, maxFile)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

type reader struct {
	task   *Task
	path   string
	folder string
	here   string // folder of the file with the key that is read: a file that the task includes may be elsewhere
	python *taskcode.Process
	until  bool             // the task has stop strings
	called []calledFunction // Python functions that this package lacks

	schemas [][]byte // JSON Schemas of metrics

	dataset dataset
}

// ignored lists keys of the harness that have no effect here: names of data sets, since users give
// the rows as files, and keys that do not change prompts or scores.
var ignored = []string{
	"tag", "task_alias", "dataset_name",
	"should_decontaminate", "doc_to_decontamination_query", "group_alias", "custom_dataset",
}

// withFunctions lists keys whose value can be a Python function.
var withFunctions = []string{"doc_to_text", "doc_to_target", "doc_to_choice", "process_docs", "process_results"}

// key reads one key of a task file.
func (r *reader) key(name string, n *yaml.Node) error {
	if function, ok := functionName(n); ok && !slices.Contains(withFunctions, name) && !slices.Contains(ignored, name) {
		return unsupportedFunction(function)
	}
	target, ok := r.targets()[name]
	switch {
	case ok:
		return store(n, target)
	case slices.Contains(ignored, name):
		return nil
	}
	return unsupported("the key")
}

// targets maps the keys of a task file to their targets (see store).
func (r *reader) targets() map[string]any {
	t := r.task
	return map[string]any{
		"task": &t.Name, "output_type": r.outputType, "metadata": r.metadata, "data": r.fileTo(&t.Data), "fewshot_data": r.fileTo(&t.FewShotData),
		"description": t.Description.read, "doc_to_text": r.field(&t.Text), "doc_to_target": r.field(&t.Target), "doc_to_choice": r.field(&t.Choices),
		"process_docs": functionTo(r, &t.convert), "process_results": functionTo(r, &t.results), // a function
		"target_delimiter": &t.TargetDelimiter, "fewshot_delimiter": &t.ShotDelimiter, "num_fewshot": &t.Shots, "fewshot_config": r.examples,
		"generation_kwargs": r.generation, "repeats": &t.Repeats, "filter_list": r.filters, "metric_list": r.metrics, "judge": r.judge,
		"training_split": &t.Splits.Training, "validation_split": &t.Splits.Validation, "test_split": &t.Splits.Test, "fewshot_split": &t.Splits.Shots,
		"dataset_path": &r.dataset.name, "dataset_kwargs": r.files, "gen_prefix": t.Prefix.read, "fewshot_as_multiturn": &t.Multiturn,
		"cluster": &t.Cluster, "margin": &t.Margin, "chat": &t.Chat, "group": isGroup, "aggregate_metric_list": isGroup,
		"unsafe_code": &t.Programs,
	}
}

// field returns a function that reads a field: a value, or the name of a Python function.
func (r *reader) field(f *Field) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if _, ok := functionName(n); ok {
			return functionTo(r, &f.function)(n)
		}
		return f.read(n)
	}
}

// functionTo returns a function that reads the name of a Python function, and sets to to the
// function that is used here.
func functionTo[T any](r *reader, to *T) func(*yaml.Node) error {
	return func(n *yaml.Node) (err error) {
		name, ok := functionName(n)
		switch {
		case ok:
			*to = findFunction[T](r, name)
		case n.Tag != "!!null":
			err = errors.New("the value must be a Python function (!function module.name)")
		}
		return err
	}
}

func isGroup(*yaml.Node) error { return errors.New("the file is a group of tasks, not a task") }

// store decodes a value into its target. If the target is a function, store calls it with the
// value; if it is nil, the value is ignored. So is the value null: as in the harness, the key then
// has its default.
func store(n *yaml.Node, target any) error {
	if n.Tag == "!!null" {
		return nil
	}
	switch target := target.(type) {
	case nil:
		return nil
	case func(*yaml.Node) error:
		return target(n)
	}
	return n.Decode(target)
}

// storeAll stores the values of a YAML mapping. targets has the target of each key that is
// supported; kind describes the keys in an error.
func storeAll(n *yaml.Node, kind string, targets map[string]any) error {
	pairs, err := mapping(n)
	for key, value := range inPairs(pairs) {
		target, ok := targets[key.Value]
		if !ok {
			return fmt.Errorf("%s: %w", key.Value, unsupported("%s", kind))
		}
		if err := store(value, target); err != nil {
			return fmt.Errorf("%s: %w", key.Value, err)
		}
	}
	return err
}

func (r *reader) metadata(n *yaml.Node) (err error) {
	r.task.Version, err = version(n)
	return err
}

// version returns the version in the value of the key metadata.
func version(n *yaml.Node) (string, error) {
	var m struct {
		Version string `yaml:"version"`
	}
	err := n.Decode(&m)
	return m.Version, err
}

// configOf returns the values of a task's keys as JSON. Functions are replaced by their names.
func configOf(keys map[string]*keyValue) map[string]json.RawMessage {
	config := map[string]json.RawMessage{}
	for name, n := range keys {
		if v, err := valueOf(n.Node); err == nil { // NaN, which JSON lacks, is left out
			config[name] = ordered.AppendJSON(nil, v)
		}
	}
	return config
}

// fileTo returns a function that reads the path of a file relative to the task's folder.
func (r *reader) fileTo(path *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		err := n.Decode(path)
		if *path != "" {
			*path = relativeTo(r.folder, *path)
		}
		return err
	}
}

// relativeTo returns a path of a task file, which may be relative to the file's folder.
func relativeTo(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
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
	return storeAll(n, "the key", map[string]any{
		"seed": &t.ShotSeed, "same": &t.ShotColumn, "split": &t.Splits.Shots,
		"doc_to_text": r.field(&t.Shot.Text), "doc_to_target": r.field(&t.Shot.Target), "doc_to_choice": r.field(&t.Shot.Choices), "gen_prefix": t.Shot.Prefix.read,
		"target_delimiter": &t.Shot.TargetDelimiter, "fewshot_delimiter": &t.Shot.ShotDelimiter,
		"samples": func(value *yaml.Node) (err error) {
			t.Examples, err = r.objects(value)
			return err
		},
		"sampler": func(value *yaml.Node) error {
			switch value.Value {
			case "default":
			case "first_n":
				t.ShotsInOrder = true
			default:
				return unsupported("%q", value.Value)
			}
			return nil
		},
	})
}

// finish checks the conditions that concern several keys, and sets the fields that depend on
// several keys.
func (r *reader) finish() error {
	t := r.task
	if err := r.checkFunctions(); err != nil {
		return err
	}
	if t.Name == "" {
		return errors.New(`the key "task", the name of the task, is missing`)
	}
	if len(t.Name) > maxName || strings.ContainsAny(t.Name, "/\\\x00") {
		return fmt.Errorf(`the name %.60q must have at most %d bytes and no slash, backslash or zero byte: it becomes part of the name of a file`, t.Name, maxName)
	}
	if !(t.Margin >= 0 && t.Margin <= 1) {
		return fmt.Errorf("margin is %v, but must be a number from 0 to 1", t.Margin)
	}
	t.Type = cmp.Or(t.Type, Generate)
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
	if t.Shots < 0 || t.Repeats < 1 || t.Repeats > maxRepeats || t.Generation.MaxTokens < 1 {
		return fmt.Errorf("num_fewshot is %d, repeats is %d and max_gen_toks is %d: they must be at least 0, from 1 to %d, and at least 1",
			t.Shots, t.Repeats, t.Generation.MaxTokens, maxRepeats)
	}
	if err := t.checkForm(); err != nil {
		return err
	}
	r.defaultFilter()
	r.splitFiles()
	known := metrics[t.Type]
	if t.results.metrics != nil {
		known = t.results.metrics
	}
	return r.checkMetrics(known)
}
