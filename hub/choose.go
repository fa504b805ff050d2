package hub

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// model is one model of a repository: a file, or the files of a split set in order.
type model struct {
	name  string // path of the file, or of the set without its numbers
	files []repoFile
	parts int // files that the set should have
}

// repoFile is a file of a repository.
type repoFile struct {
	path string
	size int64
	hash string // SHA-256, or SHA-1 of a git blob for a small file; empty if it is not known
}

// selectionError is a selection that no model, or more than one, matches.
type selectionError struct {
	name   Name
	reason string
	models []model
}

func (e *selectionError) Error() string {
	text := fmt.Sprintf("choose a file of %s: %s", e.name.ID(), e.reason)
	if len(e.models) == 0 {
		return text
	}
	const shown = 24
	var list []string
	for _, m := range e.models[:min(shown, len(e.models))] {
		list = append(list, fmt.Sprintf("%s:%s", e.name.ID(), m.selector(e.models)))
	}
	if more := len(e.models) - shown; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return text + "; it has: " + strings.Join(list, ", ")
}

// selector returns the shortest text that selects m among models: its quantisation or its file.
func (m model) selector(models []model) string {
	if label := m.label(); label != "" {
		same := 0
		for _, o := range models {
			if o.label() == label {
				same++
			}
		}
		if same == 1 {
			return label
		}
	}
	return m.files[0].path
}

var (
	splitPattern = regexp.MustCompile(`^(.+)-(\d{5})-of-(\d{5})\.gguf$`)
	labelPattern = regexp.MustCompile(`(?i)(?:^|[-._])((?:UD-)?(?:I?Q[0-9][A-Z0-9_]*|TQ[0-9][A-Z0-9_]*|BF16|F16|FP16|F32|FP32|MXFP4[A-Z0-9_]*|NVFP4[A-Z0-9_]*))$`)
	// notModels are the beginnings or parts of names of files that are no models of their own, as llama.cpp has them.
	notModels = []string{"mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-"}
)

// label returns the quantisation in the name of a model, in capitals; empty if there is none.
func (m model) label() string {
	match := labelPattern.FindStringSubmatch(m.stem())
	if match == nil {
		return ""
	}
	return strings.ToUpper(match[1])
}

// stem returns the name of a model without folder and extension.
func (m model) stem() string {
	base := path.Base(m.name)
	return base[:len(base)-len(path.Ext(base))]
}

// isComplete reports whether no file of a set is missing.
func (m model) isComplete() bool { return len(m.files) == m.parts }

// size returns the bytes of all files.
func (m model) size() (sum int64) {
	for _, f := range m.files {
		sum += f.size
	}
	return sum
}

// models groups the GGUF files of a repository into models, in the order of their paths.
func models(files []repoFile) (all []model) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b repoFile) int { return strings.Compare(a.path, b.path) })
	sets := map[string]int{} // index into all
	for _, f := range files {
		base := strings.ToLower(path.Base(f.path))
		if !strings.HasSuffix(base, ".gguf") || slices.ContainsFunc(notModels, func(s string) bool { return strings.Contains(base, s) }) {
			continue
		}
		match := splitPattern.FindStringSubmatch(f.path)
		if match == nil {
			all = append(all, model{name: f.path, files: []repoFile{f}, parts: 1})
			continue
		}
		number, _ := strconv.Atoi(match[2])
		count, _ := strconv.Atoi(match[3])
		key := match[1] + "/" + match[3]
		i, known := sets[key]
		if !known {
			i = len(all)
			sets[key] = i
			all = append(all, model{name: match[1] + ".gguf", parts: count})
		}
		if number == len(all[i].files)+1 && number <= count { // in order, without a gap
			all[i].files = append(all[i].files, f)
		}
	}
	return slices.DeleteFunc(all, func(m model) bool { return len(m.files) == 0 })
}

// choose returns the model that a name selects among the files of its repository. Without a selection it is that in Q4_K_M, else
// Q8_0, else the first, as llama.cpp chooses.
func choose(n Name, files []repoFile) (model, error) {
	all := models(files)
	if len(all) == 0 {
		return model{}, &selectionError{n, "there is no GGUF model in it; look for a repository whose name ends in -GGUF", nil}
	}
	m, err := pick(n, all)
	if err == nil && !m.isComplete() {
		err = &selectionError{n, fmt.Sprintf("%s should have %d files, but there are only %d of them", m.name, m.parts, len(m.files)), nil}
	}
	return m, err
}

func pick(n Name, all []model) (model, error) {
	if n.Select == "" {
		for _, label := range []string{"Q4_K_M", "Q8_0"} {
			for _, m := range all {
				if m.label() == label {
					return m, nil
				}
			}
		}
		return all[0], nil
	}
	if strings.HasSuffix(strings.ToLower(n.Select), ".gguf") {
		return pickFile(n, all)
	}
	tag := strings.ToUpper(n.Select)
	for _, matches := range []func(model) bool{ // the strictest first
		func(m model) bool { return m.label() == tag },
		func(m model) bool { return strings.HasSuffix(strings.ToUpper(m.stem()), "-"+tag) },
		func(m model) bool { return strings.Contains(strings.ToUpper(m.name), tag) },
	} {
		var found []model
		for _, m := range all {
			if matches(m) {
				found = append(found, m)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return model{}, &selectionError{n, fmt.Sprintf("%q matches %d files", n.Select, len(found)), found}
		}
	}
	return model{}, &selectionError{n, fmt.Sprintf("nothing in it matches %q", n.Select), all}
}

// pickFile returns the model that has the selected file: by its path, or by its name alone if only one file has it.
func pickFile(n Name, all []model) (model, error) {
	var found []model
	for _, m := range all {
		for _, f := range m.files {
			if f.path == n.Select {
				return m, nil
			}
			if path.Base(f.path) == n.Select {
				found = append(found, m)
			}
		}
	}
	switch len(found) {
	case 0:
		return model{}, &selectionError{n, fmt.Sprintf("it has no file %q", n.Select), all}
	case 1:
		return found[0], nil
	}
	slices.SortFunc(found, func(a, b model) int { return cmp.Compare(a.name, b.name) })
	return model{}, &selectionError{n, fmt.Sprintf("%d folders have a file %q", len(found), n.Select), found}
}
