package eval

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ingot-run/ingot/eval/task"
)

// savedTime is the time in the names of the harness's files.
const savedTime = "2006-01-02T15-04-05.000000"

// unsafeName matches what the harness replaces in the names of models.
var unsafeName = regexp.MustCompile(`["<>:/|\\?*\[\]]+`)

// SavedFolder returns the directory in which Save puts the files of a run: as in the harness, it
// has the name of the model.
func SavedFolder(folder string, c Config) string {
	return filepath.Join(folder, "lm-eval", unsafeName.ReplaceAllString(c.Model, "__"))
}

// Save writes the results and samples of a finished run in the formats of lm-evaluation-harness:
// results_TIME.json and, for each task, samples_TASK_TIME.jsonl. They lack what Ingot does not
// know: versions of Python packages, and the texts of task files (configs). Earlier files of the
// run are removed.
func Save(folder string, sets []*Set, r *Results) error {
	dir := SavedFolder(folder, r.Config)
	if err := cmp.Or(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return fmt.Errorf("write the harness's files: %w", err)
	}
	at := r.Date.Format(savedTime)
	hashes := map[string]string{}
	for _, s := range sets {
		samples, err := ReadSamples(folder, s.Name)
		if err != nil {
			return err
		}
		lines, hash := s.saved(samples)
		hashes[s.Name] = hash
		if err := writeLines(filepath.Join(dir, "samples_"+s.Name+"_"+at+".jsonl"), lines); err != nil {
			return fmt.Errorf("write the harness's samples: %w", err)
		}
	}
	if err := writeJSON(filepath.Join(dir, "results_"+at+".json"), savedResults(sets, r, hashes)); err != nil {
		return fmt.Errorf("write the harness's results: %w", err)
	}
	return nil
}

// savedResults returns results.json of the harness.
func savedResults(sets []*Set, r *Results, hashes map[string]string) map[string]any {
	type object = map[string]any
	results, groups, versions, shots, higher, counts := object{}, object{}, object{}, object{}, object{}, object{}
	for _, s := range sets {
		n := r.Samples[s.Name]
		results[s.Name] = savedScores(s.Name, n.Effective, r.Results[s.Name])
		shots[s.Name], higher[s.Name], versions[s.Name] = r.Shots[s.Name], r.HigherBetter[s.Name], savedVersion(s.Version)
		counts[s.Name] = object{"original": n.Original, "effective": n.Effective}
	}
	for name, scores := range r.Groups {
		rows, better, byScore := 0, map[string]bool{}, map[string]int{}
		for _, member := range r.Subtasks[name] {
			n := r.Samples[member].Effective
			rows += n
			maps.Copy(better, r.HigherBetter[member])
			for key := range r.Results[member] {
				if _, ok := scores[key]; ok && !strings.Contains(key, "_stderr,") {
					byScore[key] += n
				}
			}
			shots[name] = r.Shots[member]
		}
		group := savedScores(name, rows, scores)
		group["sample_count"] = byScore
		groups[name], results[name], higher[name], versions[name] = group, group, better, "N/A"
	}
	all := object{
		"results": results, "group_subtasks": r.Subtasks, "versions": versions, "n-shot": shots, "higher_is_better": higher, "n-samples": counts,
		"config": object{
			"model": "ingot", "model_args": object{"model": r.Config.Model, "sha256": r.Config.ModelSHA256, "base_url": r.Config.Server},
			"batch_size": nil, "batch_sizes": []int{}, "device": nil, "use_cache": nil, "limit": r.Config.Limit, "bootstrap_iters": bootstraps, "gen_kwargs": nil,
			"random_seed": 0, "numpy_seed": task.DefaultShotSeed, "torch_seed": task.DefaultShotSeed, "fewshot_seed": task.DefaultShotSeed,
		},
		"date": float64(r.Date.UnixMilli()) / 1000, "ingot_version": r.Config.Version, "task_hashes": hashes,
		"model_source": "ingot", "model_name": r.Config.Model, "model_name_sanitized": unsafeName.ReplaceAllString(r.Config.Model, "__"),
	}
	if r.Config.Limit == 0 {
		all["config"].(object)["limit"] = nil
	}
	if r.Subtasks == nil {
		all["group_subtasks"] = object{}
	}
	if len(groups) > 0 {
		all["groups"] = groups
	}
	return all
}

// savedVersion returns a task's version as the harness writes it: a number if it is one, and Yaml
// if the task has none.
func savedVersion(version string) any {
	switch {
	case version == "":
		return "Yaml"
	case json.Valid([]byte(version)):
		return json.RawMessage(version)
	}
	return version
}

func savedScores(name string, rows int, scores map[string]float64) map[string]any {
	saved := map[string]any{"name": name, "alias": name, "sample_len": rows}
	for _, v := range Scores(scores) {
		saved[v.Metric+","+v.Filter] = orNull(v.Value)
		saved[v.Metric+"_stderr,"+v.Filter] = "N/A"
		if v.Certain {
			saved[v.Metric+"_stderr,"+v.Filter] = v.Stderr
		}
	}
	return saved
}

func hexSum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}
