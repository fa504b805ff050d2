package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ingot-run/ingot/eval/taskcode"
)

// Group is a group of tasks whose scores are combined into one.
type Group struct {
	Name     string
	Alias    string // name that the harness prints; empty for Name
	Version  string // metadata.version; empty if the group has none
	Members  []Member
	Children []string // names of the tasks and groups in its list; a tag is replaced by its tasks
	Metrics  []GroupMetric
}

// Member is a task of a group.
type Member struct {
	Task   string
	Weight float64
}

// GroupMetric is a score of a group: the weighted mean of its tasks' scores by a metric.
type GroupMetric struct {
	Metric  string
	Filters []string // filters whose scores are averaged; nil for all filters
	BySize  bool     // a task's weight is multiplied by its number of rows
}

// ReadAll reads tasks and groups of tasks. paths are paths of files or names of built-in tasks. The
// tasks of a group are found by name in the folder of the group's file, in its subfolders, and
// among the built-in tasks. Each task is returned once, in the order of first appearance.
//
// python runs functions of tasks, as in ReadTrusted.
func ReadAll(paths []string, python *taskcode.Process) ([]*Task, []Group, error) {
	c := collection{python: python, byPath: map[string]bool{}, read: map[string]*Task{}, folders: map[string]map[string][]taskFile{}}
	for _, path := range paths {
		if err := c.add(path); err != nil {
			return nil, nil, err
		}
	}
	return c.tasks, c.groups, nil
}

// taskFile is a file of a task or group. keys is nil for a built-in task.
type taskFile struct {
	path string
	keys map[string]*keyValue
}

type collection struct {
	python  *taskcode.Process
	tasks   []*Task
	groups  []Group
	byPath  map[string]bool
	read    map[string]*Task                 // by path and settings that replace those of the file
	folders map[string]map[string][]taskFile // for each folder: the files that define a task, tag or group, by its name
}

func (c *collection) add(path string) error {
	if c.byPath[path] {
		return nil
	}
	c.byPath[path] = true
	if isBuiltin(path) {
		_, err := c.addTask(path, nil)
		return err
	}
	keys, err := readKeys(path, nil)
	if err != nil {
		return err
	}
	if keys["group"] == nil {
		_, err := c.addTask(path, nil)
		return err
	}
	g := groupReader{collection: c, path: path}
	return g.read(keys)
}

// addTask reads a task of a file, unless it was read before. The values of keys replace those of
// the file.
func (c *collection) addTask(path string, keys map[string]*keyValue) (*Task, error) {
	id, err := json.Marshal([]any{path, configOf(keys)})
	if err != nil {
		return nil, err
	}
	if t := c.read[string(id)]; t != nil {
		return t, nil
	}
	all, err := readKeys(path, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, keys)
	t, err := c.addKeys(path, all)
	c.read[string(id)] = t
	return t, err
}

// addKeys adds a task that has these keys. path is the file of the task or of its group.
func (c *collection) addKeys(path string, keys map[string]*keyValue) (*Task, error) {
	t, err := readTask(path, keys, c.python)
	if err != nil {
		return nil, err
	}
	for _, other := range c.tasks {
		if other.Name == t.Name {
			return nil, fmt.Errorf("read task %s: another task has the same name, %q, or the task is listed with other settings: rename one of them", path, t.Name)
		}
	}
	c.tasks = append(c.tasks, t)
	return t, nil
}

type groupReader struct {
	*collection
	path     string
	group    Group
	settings map[string]*keyValue // keys that replace those of the group's tasks
	within   []string             // files of the groups that contain this one, directly or not
	listed   []string             // names in the group's list, of which each counts once, as in the harness
}

const maxGroups = 8

// read reads a group from the keys of its file, or of its element in the list of another group.
func (g *groupReader) read(keys map[string]*keyValue) error {
	given := g.settings
	g.settings = map[string]*keyValue{}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		n := keys[name]
		var err error
		switch name {
		case "group":
			if g.group.Name == "" {
				err = n.Decode(&g.group.Name)
			}
		case "aggregate_metric_list":
			err = g.metrics(n.Node)
		case "group_alias":
			err = n.Decode(&g.group.Alias)
		case "metadata":
			g.group.Version, err = version(n.Node)
		case "task", "tag":
		default: // as in the harness, it replaces the key of the group's tasks
			g.settings[name] = n
		}
		if err != nil {
			return fmt.Errorf("read group %s:%d: %s: %w", n.file, n.Line, name, err)
		}
	}
	maps.Copy(g.settings, given)
	tasks := keys["task"]
	if tasks == nil {
		return fmt.Errorf("read group %s: the key \"task\" is missing: add it with a list of the group's tasks", g.path)
	}
	if tasks.Kind != yaml.SequenceNode || len(tasks.Content) == 0 {
		return fmt.Errorf("read group %s:%d: task: must be a list of tasks, such as [arc_easy]", tasks.file, tasks.Line)
	}
	for _, n := range tasks.Content {
		if err := g.member(n); err != nil {
			return fmt.Errorf("read group %s:%d: task: %w", tasks.file, n.Line, err)
		}
	}
	g.groups = append(g.groups, g.group)
	return nil
}

func (g *groupReader) metrics(n *yaml.Node) error {
	var list []struct {
		Metric      string    `yaml:"metric"`
		Aggregation string    `yaml:"aggregation"`
		BySize      *bool     `yaml:"weight_by_size"`
		Filters     yaml.Node `yaml:"filter_list"`
	}
	if err := n.Decode(&list); err != nil {
		return err
	}
	for _, l := range list {
		if l.Aggregation != "" && l.Aggregation != "mean" {
			return unsupported("aggregation %q", l.Aggregation)
		}
		m := GroupMetric{Metric: l.Metric, BySize: l.BySize == nil || *l.BySize}
		if !l.Filters.IsZero() {
			var err error
			if m.Filters, err = texts(&l.Filters); err != nil {
				return err
			}
		}
		g.group.Metrics = append(g.group.Metrics, m)
	}
	return nil
}

// member adds what an element of the group's task list stands for: a task, the tasks with a tag, or
// the tasks of another group. n is a name, or a mapping with the key task or group. Its other keys
// replace those of the tasks. A group with a list of tasks, and a task whose name no file has, are
// defined by the mapping; their names begin with that of the group, as in the harness.
func (g *groupReader) member(n *yaml.Node) error {
	name, weight, settings := n.Value, 1.0, maps.Clone(g.settings)
	own := map[string]*keyValue{}
	if n.Kind != yaml.ScalarNode {
		pairs, err := mapping(n)
		if err != nil {
			return err
		}
		for key, value := range inPairs(pairs) {
			own[key.Value] = &keyValue{value, g.path}
		}
		if name, weight, err = nameAndWeight(own); err != nil {
			return err
		}
	}
	if name == "" || !(weight > 0) || math.IsInf(weight, 0) { // NaN is not above 0
		return errors.New("each element must have the name of a task (key \"task\") or of a group and a weight above 0")
	}
	if slices.Contains(g.listed, name) {
		return nil
	}
	g.listed = append(g.listed, name)
	if own["group"] != nil && own["task"] != nil {
		return g.joinGroup(taskFile{g.path, own}, g.group.Name+"::"+name, settings, weight)
	}
	files, err := g.find(name)
	delete(own, "group")
	delete(own, "task")
	maps.Copy(settings, own)
	if err != nil && len(own) > 0 {
		settings["task"] = &keyValue{&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: g.group.Name + "::" + name, Line: n.Line}, g.path}
		t, err := g.addKeys(g.path, settings)
		if err != nil {
			return err
		}
		g.addMember(t.Name, weight)
		return nil
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := g.join(file, settings, weight); err != nil {
			return err
		}
	}
	return nil
}

// nameAndWeight returns the name and the weight of an element of a group's list. It removes the
// weight from the keys.
func nameAndWeight(keys map[string]*keyValue) (name string, weight float64, err error) {
	weight = 1
	if n := keys["weight"]; n != nil {
		err = n.Decode(&weight)
	}
	delete(keys, "weight")
	named := keys["group"]
	if named == nil {
		named = keys["task"]
	}
	if named != nil && err == nil {
		err = named.Decode(&name)
	}
	return name, weight, err
}

func (g *groupReader) addMember(name string, weight float64) {
	g.group.Members = append(g.group.Members, Member{name, weight})
	g.group.Children = append(g.group.Children, name)
}

// join adds the task or the tasks of the group in a file. settings are those of the element that
// names it.
func (g *groupReader) join(file taskFile, settings map[string]*keyValue, weight float64) error {
	if slices.Contains(g.within, file.path) || len(g.within) > maxGroups {
		return fmt.Errorf("%s: the group contains itself, or groups are nested deeper than %d", file.path, maxGroups)
	}
	if file.keys["group"] != nil {
		return g.joinGroup(file, "", settings, weight)
	}
	t, err := g.addTask(file.path, settings)
	if err != nil {
		return err
	}
	g.byPath[file.path] = true
	g.addMember(t.Name, weight)
	return nil
}

// joinGroup adds the tasks of another group. name replaces the group's name if it is not empty.
func (g *groupReader) joinGroup(file taskFile, name string, settings map[string]*keyValue, weight float64) error {
	inner := groupReader{collection: g.collection, path: file.path, settings: settings, within: append(slices.Clone(g.within), g.path)}
	inner.group.Name = name
	if len(g.within) > maxGroups {
		return fmt.Errorf("%s: the group contains itself, or groups are nested deeper than %d", file.path, maxGroups)
	}
	if err := inner.read(file.keys); err != nil {
		return err
	}
	g.group.Children = append(g.group.Children, inner.group.Name)
	for _, m := range inner.group.Members {
		g.group.Members = append(g.group.Members, Member{m.Task, m.Weight * weight})
	}
	return nil
}

const maxFiles = 10_000

func (g *groupReader) find(name string) ([]taskFile, error) {
	folder := filepath.Dir(g.path)
	index, ok := g.folders[folder]
	if !ok {
		var err error
		if index, err = namesIn(folder); err != nil {
			return nil, err
		}
		g.folders[folder] = index
	}
	if files := index[name]; files != nil {
		return files, nil
	}
	if isBuiltin(name) {
		return []taskFile{{path: name}}, nil
	}
	return nil, fmt.Errorf("%q is not a built-in task, and no readable task file under %s defines a task, tag or group of this name", name, folder)
}

func namesIn(folder string) (map[string][]taskFile, error) {
	index := map[string][]taskFile{}
	n := 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".yml") {
			return nil
		}
		if n++; n > maxFiles {
			return fmt.Errorf("there are more than %d YAML files under %s: move the group and its tasks to a folder of their own", maxFiles, folder)
		}
		keys, err := readKeys(path, nil)
		if err != nil {
			return nil //nolint:nilerr // other files in the folder need not be task files
		}
		for _, key := range []string{"group", "task", "tag"} {
			value := keys[key]
			if value == nil || key == "task" && keys["group"] != nil {
				continue
			}
			names, _ := texts(value.Node) // another value names nothing
			for _, name := range names {
				index[name] = append(index[name], taskFile{path, keys})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the tasks of a group: %w", err)
	}
	return index, nil
}
