package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// namedModel is a model of --model that is one of several.
type namedModel struct {
	name string // empty if it is the only one
	file string
}

// namedModels returns the models of --model in order. The name of one of several is that of its file, or is given as ALIAS=FILE.
func namedModels(lines string) ([]namedModel, error) {
	if !strings.Contains(lines, "\n") {
		return []namedModel{{file: lines}}, nil
	}
	files, err := modelFiles(lines)
	if err != nil {
		return nil, err
	}
	var all []namedModel
	for line := range strings.Lines(lines) {
		for name, file := range files {
			line := strings.TrimSpace(line)
			known := slices.ContainsFunc(all, func(m namedModel) bool { return m.name == name })
			if !known && (line == file || line == name+"="+file) {
				all = append(all, namedModel{name, file})
			}
		}
	}
	return all, nil
}

// modelName returns the name of a model whose file is given without one.
func modelName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".gguf") }
