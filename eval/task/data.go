package task

import (
	"cmp"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// files reads the key dataset_kwargs. data_files names the files of rows, as with dataset_path:
// json: a path, or the path of each split. Other settings are those of the library that loads data
// sets for the harness; they have no effect here.
func (r *reader) files(n *yaml.Node) error {
	pairs, err := mapping(n)
	for i := 0; err == nil && i+1 < len(pairs); i += 2 {
		if pairs[i].Value == "data_files" {
			return r.paths(pairs[i+1])
		}
	}
	return err
}

func (r *reader) paths(n *yaml.Node) error {
	r.dataFiles = map[string]string{}
	if n.Kind != yaml.MappingNode { // the harness calls rows without a split "train"
		return r.dataFile("train", n)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if err := r.dataFile(n.Content[i].Value, n.Content[i+1]); err != nil {
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
		if strings.Contains(file, "://") {
			return nil // the user gives the rows as a file
		}
	}
	if len(list) != 1 || list[0] == "" || strings.ContainsAny(list[0], "*?[") {
		return errors.New("data_files: a split must be one file: join its files, and name the result")
	}
	r.dataFiles[split] = relativeTo(r.folder, list[0])
	return nil
}

// splitFiles sets the files of rows and of examples from data_files, unless the task names them
// with data and fewshot_data.
func (r *reader) splitFiles() {
	t := r.task
	if r.dataset != "json" && r.dataset != "jsonl" {
		return
	}
	rows, examples := t.Splits.Rows(), t.Splits.Examples()
	t.Data = cmp.Or(t.Data, r.dataFiles[rows])
	if examples != rows {
		t.FewShotData = cmp.Or(t.FewShotData, r.dataFiles[examples])
	}
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
