package task

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// splitWords are the words for splits in names of files and folders, as in the package datasets.
var splitWords = map[string]string{"train": "train|training", "validation": "validation|valid|dev|val", "test": "test|testing|eval|evaluation"}

// maxDataFiles is the maximum number of files in a folder of rows.
const maxDataFiles = 1000

// notRows are the names of files that the package datasets does not read.
var notRows = []string{"README.md", "config.json", "dataset_info.json", "dataset_infos.json", "dummy_data.zip", "dataset_dict.json"}

// shardName matches the path of a part of a split.
var shardName = regexp.MustCompile(`^data/(\w+)-\d{5}-of-\d{5}[^/]*\.[^/]*$`)

// splitsIn returns the files of each split in a folder. The first of these rules that finds a file
// decides, as in the package datasets: names of parts, names of folders that contain the word of a
// split, names of files that do. If none finds one, all files are of the split "train".
func splitsIn(folder string) (map[string][]string, error) {
	paths, err := filesIn(folder)
	if err != nil {
		return nil, err
	}
	rules := []func(path string) []string{
		func(path string) []string {
			if m := shardName.FindStringSubmatch(path); m != nil {
				return m[1:]
			}
			return nil
		},
		func(path string) (splits []string) {
			parents := strings.Split(path, "/")
			parents = parents[:len(parents)-1]
			for split, words := range splitWords {
				if re := regexp.MustCompile(`^(.*[-._ 0-9])?(` + words + `)([-._ 0-9].*)?$`); slices.ContainsFunc(parents, re.MatchString) {
					splits = append(splits, split)
				}
			}
			return splits
		},
		func(path string) (splits []string) {
			for split, words := range splitWords {
				if regexp.MustCompile(`(^|[-._ 0-9/])(` + words + `)[-._ 0-9][^/]*$`).MatchString(path) {
					splits = append(splits, split)
				}
			}
			return splits
		},
		func(string) []string { return []string{"train"} },
	}
	for _, splitsOf := range rules {
		found := map[string][]string{}
		for _, path := range paths {
			for _, split := range splitsOf(path) {
				found[split] = append(found[split], filepath.Join(folder, path))
			}
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, fmt.Errorf("the folder %s has no files", folder)
}

// filesIn returns the paths of the files in a folder, relative to it and with slashes. Hidden files
// and folders are left out, and folders whose names begin with two underscores.
func filesIn(folder string) (paths []string, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case path != folder && (strings.HasPrefix(name, ".") || d.IsDir() && strings.HasPrefix(name, "__")):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || slices.Contains(notRows, name):
			return nil
		case len(paths) == maxDataFiles:
			return errors.New("it has too many files")
		}
		relative, err := filepath.Rel(folder, path)
		paths = append(paths, filepath.ToSlash(relative))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the folder %s: %w", folder, err)
	}
	return paths, nil
}
