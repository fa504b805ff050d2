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

// model is one model of a repository: a single file, or the files into which a large model is
// split, in order.
type model struct {
	name  string // path of the file; for a set, the path without the numbers
	files []repoFile
	parts int // number of files that the complete set has
}

type repoFile struct {
	path string
	size int64
	hash string // SHA-256, or SHA-1 of the git blob for a small file; empty if unknown
}

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
	return text + "; found: " + strings.Join(list, ", ")
}

// selector returns the shortest selection that matches only m among models: its quantisation or its
// file.
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
	// A file is not a model on its own if its name contains one of notModels. llama.cpp has the
	// same rule.
	notModels = []string{"mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-"}
)

// label returns the quantisation in a model's name, in capitals; empty if the name has none.
func (m model) label() string {
	match := labelPattern.FindStringSubmatch(m.stem())
	if match == nil {
		return ""
	}
	return strings.ToUpper(match[1])
}

func (m model) stem() string {
	base := path.Base(m.name)
	return base[:len(base)-len(path.Ext(base))]
}

func (m model) isComplete() bool { return len(m.files) == m.parts }

func (m model) size() (sum int64) {
	for _, f := range m.files {
		sum += f.size
	}
	return sum
}

func models(files []repoFile) (all []model) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b repoFile) int { return strings.Compare(a.path, b.path) })
	sets := map[string]int{} // index in all, by the set's name
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
		if number == len(all[i].files)+1 && number <= count { // the next file of the set
			all[i].files = append(all[i].files, f)
		}
	}
	return slices.DeleteFunc(all, func(m model) bool { return len(m.files) == 0 })
}

// choose returns the model that a name selects among files, which are those of the name's
// repository. Without a selection, it returns the model in Q4_K_M; if there is none, the one in
// Q8_0; otherwise the first one. llama.cpp does the same.
func choose(n Name, files []repoFile) (model, error) {
	all := models(files)
	if len(all) == 0 {
		return model{}, &selectionError{n, "the repository has no GGUF model; look for a repository whose name ends in -GGUF", nil}
	}
	m, err := pick(n, all)
	if err == nil && !m.isComplete() {
		err = &selectionError{n, fmt.Sprintf("%s should have %d files, but only %d of them were found", m.name, m.parts, len(m.files)), nil}
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
	for _, matches := range []func(model) bool{ // from the strictest match to the loosest
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
	return model{}, &selectionError{n, fmt.Sprintf("no model matches %q", n.Select), all}
}

// pickFile returns the model with the selected file: its path, or only its name if no other folder
// has a file of that name.
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
		return model{}, &selectionError{n, fmt.Sprintf("there is no file %q", n.Select), all}
	case 1:
		return found[0], nil
	}
	slices.SortFunc(found, func(a, b model) int { return cmp.Compare(a.name, b.name) })
	return model{}, &selectionError{n, fmt.Sprintf("%d folders have a file %q", len(found), n.Select), found}
}
