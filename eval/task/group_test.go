package task

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// files writes files into a new folder.
func files(t *testing.T, texts map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range texts {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return folder
}

// TestGroupsThatAreRefused: the error about a group names its file, and that of a group within it.
func TestGroupsThatAreRefused(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"a.yaml":      plainTask,
		"broken.yaml": "task: broken\ndoc_to_text: x\n",
		"same.yaml":   "group: same\ntask: [twin]",
		"twin.yaml":   "task: [twin]\ndoc_to_text: x\ndoc_to_target: y\n",
		"tagged.yaml": "task: {a: b}\ntag: {c: d}\ngroup: {e: f}\n",
		"fits.yaml":   "group: fits\ntask: [g2]",
	}
	for i := 1; i < 9; i++ {
		texts[fmt.Sprintf("g%d.yaml", i)] = fmt.Sprintf("group: g%d\ntask: [g%d]", i, i+1)
	}
	texts["g9.yaml"] = "group: g9\ntask: [a]"
	for text, says := range map[string]string{
		"task: [[a]]":                     "task: the value must be a mapping",
		"task: [strange]":                 "strange.yaml:1: banana: the key is not supported",
		"task: [broken]":                  `broken.yaml: "doc_to_text" or "doc_to_target" is missing`,
		"task: [same]":                    "twin.yaml:1: task: yaml: ",
		"task: [g1]":                      "the group contains itself, or groups are nested deeper than 8",
		"task: [{task: a, weight: -1}]":   "a weight above 0",
		"task: {a: b}":                    "task: must be a list of tasks",
		"task: [{group: x, task: a}]":     "top.yaml:2: task: must be a list of tasks",
		"task: [{group: x, task: [top]}]": "the group contains itself",
		"task: [{group: x, task: [" + strings.Repeat("{group: x, task: [", 9) + "a" + strings.Repeat("]}", 10) + "]": "groups are nested deeper than 8",
		"task: [{group: x}]":                                       `"x" is not a built-in task`,
		"task: [{task: x, weight: 2}]":                             `"x" is not a built-in task`,
		"task: [{task: x, doc_to_text: q}]":                        `"doc_to_text" or "doc_to_target" is missing`,
		"task: [{task: a, banana: 1}]":                             "banana: the key is not supported",
		"task: [a, {group: x, task: [{task: a, num_fewshot: 1}]}]": `the task is listed with other settings`,
		"task: [tagged]":                                           `"tagged" is not a built-in task, and no readable task file under `,
		"task: [a]\naggregate_metric_list: [{metric: [a]}]":        "aggregate_metric_list: yaml: ",
		"task: [a]\ninclude: none.yaml":                            "none.yaml",
	} {
		texts["strange.yaml"] = "banana: 1\ngroup: strange\ntask: [a]"
		texts["top.yaml"] = "group: top\n" + text
		_, _, err := ReadAll([]string{filepath.Join(files(t, texts), "top.yaml")}, nil)
		require.ErrorContains(t, err, says, text)
	}
	folder := files(t, texts)
	_, _, err := ReadAll([]string{filepath.Join(folder, "fits.yaml")}, nil)
	require.NoError(t, err, "9 groups within each other")
	_, _, err = ReadAll([]string{filepath.Join(folder, "broken.yaml")}, nil)
	require.ErrorContains(t, err, "is missing")
	_, _, err = ReadAll([]string{filepath.Join(folder, "none.yaml")}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestMembersOfGroups: a task or tag is found in the folder of the group, whatever the ending of
// its file, before a built-in task of the name. Weights are multiplied.
func TestMembersOfGroups(t *testing.T) {
	t.Parallel()
	folder := files(t, map[string]string{
		"own.yml":         "task: gsm8k\ntag: [numbers, others]\ndoc_to_text: x\ndoc_to_target: y\n",
		"sub/second.yaml": "task: second\ntag: numbers\ndoc_to_text: x\ndoc_to_target: y\n",
		"third.txt":       "task: third\ntag: numbers\ndoc_to_text: x\ndoc_to_target: y\n",
		"group.yaml":      "group: group\ntask: [{task: numbers, weight: 2}]\nmetadata: {version: 1}\ngroup_alias: g\n",
		"outer.yaml":      "group: outer\ntask: [{task: group, weight: 0.25}, hellaswag]\naggregate_metric_list: [{metric: acc, aggregation: mean, filter_list: [a, b]}, {metric: f1, weight_by_size: true}]\n",
		"plain.yaml":      "group: plain\ntask: [gsm8k, hellaswag, gsm8k]\n",
	})
	outer, plain := filepath.Join(folder, "outer.yaml"), filepath.Join(folder, "plain.yaml")
	tasks, groups, err := ReadAll([]string{outer, plain, plain, "hellaswag", outer}, nil)
	require.NoError(t, err)
	var names []string
	for _, task := range tasks {
		names = append(names, task.Name)
	}
	require.Equal(t, []string{"gsm8k", "second", "hellaswag"}, names)
	require.Equal(t, filepath.Join(folder, "own.yml"), tasks[0].Path)
	require.Equal(t, []Group{
		{Name: "group", Alias: "g", Version: "1", Members: []Member{{"gsm8k", 2}, {"second", 2}}, Children: []string{"gsm8k", "second"}},
		{Name: "outer", Members: []Member{{"gsm8k", 0.5}, {"second", 0.5}, {"hellaswag", 1}}, Children: []string{"group", "hellaswag"}, Metrics: []GroupMetric{{"acc", []string{"a", "b"}, true}, {"f1", nil, true}}},
		{Name: "plain", Members: []Member{{"gsm8k", 1}, {"hellaswag", 1}}, Children: []string{"gsm8k", "hellaswag"}},
	}, groups)
	_, _, err = ReadAll([]string{"gsm8k", "gsm8k"}, nil)
	require.NoError(t, err)
}

// TestGroupsInLists: names and settings are those of lm-eval 0.4.13 with the same groups.
func TestGroupsInLists(t *testing.T) {
	t.Parallel()
	folder := files(t, map[string]string{
		"a.yaml":    "task: t_a\ndoc_to_text: x\ndoc_to_target: y\n",
		"b.yaml":    "task: t_b\ndoc_to_text: x\ndoc_to_target: y\nnum_fewshot: 4\n",
		"c.yaml":    "task: t_c\ndoc_to_text: x\ndoc_to_target: y\nrepeats: 3\n",
		"file.yaml": "group: g_file\ntask: [t_c]\nnum_fewshot: 5\nrepeats: 6\n",
		"top.yaml": `group: g_top
task:
- group: g_x
  group_alias: X
  weight: 2
  task: [t_a, {task: t_b, num_fewshot: 1, weight: 0.5}]
  repeats: 2
  aggregate_metric_list: [{metric: acc}]
- {group: g_file, num_fewshot: 7}
- task: t_own
  doc_to_text: q
  doc_to_target: a
`,
	})
	tasks, groups, err := ReadAll([]string{filepath.Join(folder, "top.yaml")}, nil)
	require.NoError(t, err)
	type settings struct {
		name           string
		shots, repeats int
	}
	var got []settings
	for _, task := range tasks {
		got = append(got, settings{task.Name, task.Shots, task.Repeats})
	}
	require.Equal(t, []settings{{"t_a", 0, 2}, {"t_b", 1, 2}, {"t_c", 7, 6}, {"g_top::t_own", 0, 1}}, got)
	require.Equal(t, []Group{
		{Name: "g_top::g_x", Alias: "X", Members: []Member{{"t_a", 1}, {"t_b", 0.5}}, Children: []string{"t_a", "t_b"}, Metrics: []GroupMetric{{Metric: "acc", BySize: true}}},
		{Name: "g_file", Members: []Member{{"t_c", 1}}, Children: []string{"t_c"}},
		{Name: "g_top", Members: []Member{{"t_a", 2}, {"t_b", 1}, {"t_c", 1}, {"g_top::t_own", 1}}, Children: []string{"g_top::g_x", "g_file", "g_top::t_own"}},
	}, groups)
}

// TestManyFilesBesideAGroup: the search for the tasks of a group ends after 10,000 files.
func TestManyFilesBesideAGroup(t *testing.T) {
	t.Parallel()
	folder := files(t, map[string]string{"a.yaml": plainTask, "group.yaml": "group: g\ntask: [a]", "empty.yaml": ""})
	for i := range maxFiles - 3 {
		require.NoError(t, os.Link(filepath.Join(folder, "empty.yaml"), filepath.Join(folder, fmt.Sprintf("%05d.yaml", i))))
	}
	_, _, err := ReadAll([]string{filepath.Join(folder, "group.yaml")}, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "one.yml"), nil, 0o600))
	_, _, err = ReadAll([]string{filepath.Join(folder, "group.yaml")}, nil)
	require.ErrorContains(t, err, "look for the tasks of a group: there are more than 10000 YAML files under "+folder)
}

// A folder that cannot be read is an error of the search for names.
func TestNamesInAFolderThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := namesIn(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
