package task

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeFiles makes files with the given paths in a new folder, each with its path as its content.
func writeFiles(t *testing.T, paths ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, path := range paths {
		path = filepath.Join(folder, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(path), 0o600))
	}
	return folder
}

// TestSplitsOfFolders: the files of each split in a folder, as get_data_patterns of the package
// datasets 5.2.0 finds them.
func TestSplitsOfFolders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files, want string // the splits in the order of their names
	}{
		{"test.jsonl train.jsonl", "test=test.jsonl train=train.jsonl"},
		{"dev.jsonl my-eval.json training_1.json", "test=my-eval.json train=training_1.json validation=dev.jsonl"},
		{"rows.jsonl", "train=rows.jsonl"},
		{"a.jsonl b.jsonl", "train=a.jsonl,b.jsonl"},
		{"tests.jsonl contest.jsonl", "train=contest.jsonl,tests.jsonl"},
		{"rows.jsonl test.jsonl", "test=test.jsonl"},
		{"test/rows.jsonl train.jsonl", "test=test/rows.jsonl"},
		{"test/a/rows.jsonl my_train/b.jsonl", "test=test/a/rows.jsonl train=my_train/b.jsonl"},
		{"a/test.jsonl b/val.jsonl", "test=a/test.jsonl validation=b/val.jsonl"},
		{"data/dev-00000-of-00002.jsonl data/dev-00001-of-00002.jsonl test.jsonl", "dev=data/dev-00000-of-00002.jsonl,data/dev-00001-of-00002.jsonl"},
		{"train_test.jsonl", "test=train_test.jsonl train=train_test.jsonl"},
		{"__test.jsonl rows.jsonl", "test=__test.jsonl"},
		{"README.md .test.jsonl __test/b.jsonl .git/test.jsonl rows.jsonl config.json", "train=rows.jsonl"},
	} {
		folder := writeFiles(t, strings.Fields(c.files)...)
		found, err := splitsIn(folder)
		require.NoError(t, err)
		want := map[string][]string{}
		for _, each := range strings.Fields(c.want) {
			split, files, _ := strings.Cut(each, "=")
			for _, file := range strings.Split(files, ",") {
				want[split] = append(want[split], filepath.Join(folder, file))
			}
		}
		require.Equal(t, want, found, c.files)
	}
	_, err := splitsIn(writeFiles(t, "README.md"))
	require.ErrorContains(t, err, "has no files")
	_, err = splitsIn(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "read the folder ")
	var many []string
	for i := range maxDataFiles + 1 {
		many = append(many, fmt.Sprint(i))
	}
	_, err = splitsIn(writeFiles(t, many...))
	require.ErrorContains(t, err, "it has too many files")
}

// TestFoldersAndFields: data_dir is the folder of data_files, or that of all files. A split without
// a file is named. field is that of the files of the data set.
func TestFoldersAndFields(t *testing.T) {
	t.Parallel()
	folder := writeFiles(t, "rows/test.json", "rows/train.json", "rows/a_dev.json", "rows/b_dev.json")
	at := func(path string) string { return filepath.Join(folder, path) }
	for _, c := range []struct{ settings, data, shots, noData, noShots string }{
		{"dataset_kwargs: {data_dir: rows}\ntest_split: test\nfewshot_split: train", "rows/test.json", "rows/train.json", "", ""},
		{"dataset_kwargs: {data_dir: " + at("rows") + ", field: f}\nvalidation_split: test", "rows/test.json", "", "", ""},
		{"dataset_kwargs: {data_dir: rows, data_files: {test: test.json, train: train.json}, field: f}\ntest_split: test\ntraining_split: train", "rows/test.json", "rows/train.json", "", ""},
		{"dataset_kwargs: {data_dir: rows, data_files: {test: " + at("other.json") + "}}\ntest_split: test", "other.json", "", "", ""},
		{"dataset_kwargs: {data_dir: rows, data_files: null}\ntest_split: test", "rows/test.json", "", "", ""},
		{"dataset_kwargs: {data_dir: 'hf://x/y'}\ntest_split: test", "", "", "", ""},
		{"dataset_kwargs: {field: f}\ntest_split: test", "", "", "", ""},
		{"dataset_kwargs: {data_files: {test: a.json, train: b.json}}\nvalidation_split: dev\nfewshot_split: train", "", "b.json",
			`data_files has no file of the split "dev"; it has files of: test, train`, ""},
		{"dataset_kwargs: {data_files: rows.json}\ntest_split: test", "", "", `data_files has no file of the split "test"; it has files of: train`, ""},
		{"dataset_kwargs: {data_files: rows.json}", "", "", "the task names no split: it needs test_split or validation_split", ""},
		{"dataset_kwargs: {data_files: {test: a.json}}\ntest_split: test\ntraining_split: train", "a.json", "", "", `data_files has no file of the split "train"; it has files of: test`},
		{"dataset_kwargs: {data_files: {test: 'https://x.org/a.json'}}\ntest_split: test\ntraining_split: train", "", "", "", `data_files has no file of the split "train"; it has files of: test`},
		{"dataset_kwargs: {data_dir: rows}\ntest_split: test2", "", "", `data_dir has no file of the split "test2"; it has files of: test, train, validation`, ""},
		{"dataset_kwargs: {data_dir: rows}\nvalidation_split: validation", "", "", `data_dir: the split "validation" has 2 files in ` + at("rows") + ": join them", ""},
		{"dataset_kwargs: {data_dir: none}\ntest_split: test", "", "", "data_dir: read the folder " + at("none"), ""},
		{"dataset_kwargs: {data_dir: none}\ntest_split: test\ndata: own.json", "own.json", "", "", ""},
	} {
		path := at("task.yaml")
		require.NoError(t, os.WriteFile(path, []byte(plainTask+"dataset_path: json\n"+c.settings), 0o600))
		task, err := Read(path)
		require.NoError(t, err, c.settings)
		for _, each := range []struct{ want, got string }{{c.data, task.Data}, {c.shots, task.FewShotData}} {
			if each.want != "" {
				each.want = at(each.want)
			}
			require.Equal(t, each.want, each.got, c.settings)
			if strings.Contains(c.settings, "field: f") && each.got != "" {
				require.Equal(t, "f", task.Fields[each.got], c.settings)
			} else {
				require.Empty(t, task.Fields[each.got], c.settings)
			}
		}
		for _, each := range []struct {
			want string
			got  error
		}{{c.noData, task.NoData}, {c.noShots, task.NoExamples}} {
			if each.want == "" {
				require.NoError(t, each.got, c.settings)
			} else {
				require.ErrorContains(t, each.got, each.want, c.settings)
			}
		}
	}
	for _, settings := range []string{"{data_dir: [a]}", "{field: {a: b}}"} {
		require.NoError(t, os.WriteFile(at("task.yaml"), []byte(plainTask+"dataset_path: json\ndataset_kwargs: "+settings), 0o600))
		_, err := Read(at("task.yaml"))
		require.ErrorContains(t, err, "dataset_kwargs: ", settings)
	}
}
