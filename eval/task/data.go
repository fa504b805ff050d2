package task

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// dataset is what a task says about the files of its rows, which the package datasets loads for the
// harness.
type dataset struct {
	name  string            // dataset_path
	files map[string]string // data_files: the path of the file of each split, empty for an address; nil if the task names none
	dir   string            // data_dir: the folder of the files
	field string            // field of the object in a file that has the rows; empty for a file of rows
}

// files reads the key dataset_kwargs. data_files names the files of rows, as with dataset_path:
// json: a path, or the path of each split. data_dir is their folder. Other settings have no effect
// here.
func (r *reader) files(n *yaml.Node) error {
	pairs, err := mapping(n)
	for key, value := range inPairs(pairs) {
		switch {
		case key.Value == "data_files" && value.Tag != "!!null":
			err = r.paths(value)
		case key.Value == "data_dir":
			err = value.Decode(&r.dataset.dir)
		case key.Value == "field":
			err = value.Decode(&r.dataset.field)
		}
		if err != nil {
			return err
		}
	}
	return err
}

func (r *reader) paths(n *yaml.Node) error {
	r.dataset.files = map[string]string{}
	if n.Kind != yaml.MappingNode { // the harness calls rows without a split "train"
		return r.dataFile("train", n)
	}
	for split, value := range inPairs(n.Content) {
		if err := r.dataFile(split.Value, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) dataFile(split string, n *yaml.Node) error {
	list, err := texts(n)
	if err != nil {
		return err
	}
	for _, file := range list {
		if isAddress(file) {
			r.dataset.files[split] = "" // the user gives the rows as a file
			return nil
		}
	}
	if len(list) != 1 || list[0] == "" || strings.ContainsAny(list[0], "*?[") {
		return errors.New("data_files: a split must be one file: join its files, and name the result")
	}
	r.dataset.files[split] = list[0]
	return nil
}

func isAddress(path string) bool { return strings.Contains(path, "://") }

// splitFiles sets the files of rows and of examples from dataset_kwargs, unless the task names them
// with data and fewshot_data.
func (r *reader) splitFiles() {
	t, d := r.task, &r.dataset
	if d.name != "json" && d.name != "jsonl" || d.files == nil && d.dir == "" || isAddress(d.dir) {
		return
	}
	rows, examples := t.Splits.Rows(), t.Splits.Examples()
	t.Fields = map[string]string{}
	if t.Data == "" {
		t.Data, t.NoData = r.fileOf(rows)
	}
	if t.FewShotData == "" && examples != rows {
		t.FewShotData, t.NoExamples = r.fileOf(examples)
	}
}

// fileOf returns the path of the file of a split. It is empty if the user gives the file.
func (r *reader) fileOf(split string) (path string, err error) {
	d := &r.dataset
	if split == "" {
		return "", errors.New("the task names no split: it needs test_split or validation_split")
	}
	folder := relativeTo(r.folder, d.dir)
	var known []string
	var where string
	switch {
	case d.files != nil:
		file, ok := d.files[split]
		if ok && file == "" {
			return "", nil
		}
		if ok {
			path = relativeTo(folder, file)
		}
		known, where = slices.Sorted(maps.Keys(d.files)), "data_files"
	default:
		found, err := splitsIn(folder)
		if err != nil {
			return "", fmt.Errorf("data_dir: %w", err)
		}
		if n := len(found[split]); n > 1 {
			return "", fmt.Errorf("data_dir: the split %q has %d files in %s: join them, and name the result with data_files", split, n, folder)
		} else if n == 1 {
			path = found[split][0]
		}
		known, where = slices.Sorted(maps.Keys(found)), "data_dir"
	}
	if path == "" {
		return "", fmt.Errorf("%s has no file of the split %q; it has files of: %s", where, split, strings.Join(known, ", "))
	}
	if d.field != "" {
		r.task.Fields[path] = d.field
	}
	return path, nil
}

// defaultFilter sets the filter of a task without filter_list: as in the harness, the first answer
// counts. Metrics that need several answers get all of them.
func (r *reader) defaultFilter() {
	t := r.task
	if len(t.Filters) > 0 {
		return
	}
	p := Pipeline{Name: "none"}
	several := t.Type == Judge
	for _, m := range t.Metrics {
		several = several || m.K > 0
	}
	if !several {
		p.steps = []step{{filter: takeFirst, first: true}}
	}
	t.Filters = []Pipeline{p}
}
