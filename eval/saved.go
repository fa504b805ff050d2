package eval

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

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
// results_TIME.json and, for each task, samples_TASK_TIME.jsonl. What Ingot does not know, such as
// versions of Python packages, is null or N/A. Earlier files of the run are removed.
func Save(folder string, sets []*Set, groups []task.Group, r *Results) error {
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
	if err := writeJSON(filepath.Join(dir, "results_"+at+".json"), savedResults(sets, groups, r, hashes)); err != nil {
		return fmt.Errorf("write the harness's results: %w", err)
	}
	return nil
}

// savedResults returns results.json of the harness.
func savedResults(sets []*Set, groups []task.Group, r *Results, hashes map[string]string) map[string]any {
	type object = map[string]any
	results, versions, shots, higher, counts, configs := object{}, object{}, object{}, object{}, object{}, object{}
	all := object{
		"results": results, "group_subtasks": object{}, "versions": versions, "n-shot": shots, "higher_is_better": higher, "n-samples": counts, "configs": configs,
		"config": object{
			"model": "ingot", "model_args": object{"model": r.Config.Model, "sha256": r.Config.ModelSHA256, "base_url": r.Config.Server},
			"batch_size": nil, "batch_sizes": []int{}, "device": nil, "use_cache": nil, "limit": r.Config.Limit, "bootstrap_iters": bootstraps, "gen_kwargs": nil,
			"random_seed": 0, "numpy_seed": task.DefaultShotSeed, "torch_seed": task.DefaultShotSeed, "fewshot_seed": task.DefaultShotSeed,
		},
		"date": float64(r.Date.UnixMilli()) / 1000, "ingot_version": r.Config.Version, "task_hashes": hashes,
		"model_source": "ingot", "model_name": r.Config.Model, "model_name_sanitized": unsafeName.ReplaceAllString(r.Config.Model, "__"),
		"system_instruction": nil, "system_instruction_sha": nil, "chat_template": nil, "chat_template_sha": nil, "fewshot_as_multiturn": nil,
		"git_hash": nil, "upper_git_hash": nil, "pretty_env_info": "ingot " + r.Config.Version + " on " + runtime.GOOS + "/" + runtime.GOARCH,
		"transformers_version": "N/A", "lm_eval_version": "N/A", "total_evaluation_time_seconds": nil,
	}
	if r.Config.Limit == 0 {
		all["config"].(object)["limit"] = nil
	}
	for _, s := range sets {
		n := r.Samples[s.Name]
		results[s.Name] = savedScores(s.Name, s.alias(), r.Results[s.Name])
		results[s.Name].(object)["sample_len"] = n.Effective
		better := object{}
		for metric, higher := range r.HigherBetter[s.Name] {
			better[metric] = higher
		}
		shots[s.Name], higher[s.Name], versions[s.Name] = r.Shots[s.Name], better, savedVersion(s.Version)
		counts[s.Name] = object{"original": n.Original, "effective": n.Effective}
		configs[s.Name] = s.savedConfig(r.Shots[s.Name])
		if s.Chat {
			all["fewshot_as_multiturn"] = s.Multiturn
			if r.Config.ChatTemplate != "" {
				all["chat_template_sha"] = r.Config.ChatTemplate
			}
		}
	}
	addSavedGroups(all, groups, r)
	return all
}

// alias returns the name of the task that the harness prints.
func (s *Set) alias() string {
	alias := s.Name
	json.Unmarshal(s.Config["task_alias"], &alias) //nolint:errcheck // a task without it keeps its name
	return alias
}

// savedConfig returns the keys of the task's file, with the defaults of those that it lacks.
func (s *Set) savedConfig(shots int) map[string]any {
	config := map[string]any{
		"output_type": s.Type, "description": "", "target_delimiter": s.TargetDelimiter, "fewshot_delimiter": s.ShotDelimiter,
		"repeats": s.Repeats, "unsafe_code": s.Programs, "should_decontaminate": false, "metadata": map[string]any{},
	}
	if s.Type.Generates() {
		config["generation_kwargs"] = s.savedGeneration()
	}
	for key, v := range s.Config {
		if key != "tag" && key != "group" {
			config[key] = v
		}
	}
	metadata := map[string]any{}
	if text, ok := config["metadata"].(json.RawMessage); ok {
		json.Unmarshal(text, &metadata) //nolint:errcheck // the task was read, so it is an object
	}
	metadata["config_source"] = s.Path
	config["metadata"], config["num_fewshot"] = metadata, shots
	return config
}

func (s *Set) savedGeneration() map[string]any {
	g := &s.Generation
	return map[string]any{"until": g.Until, "max_gen_toks": g.MaxTokens, "temperature": g.Temperature, "do_sample": g.Temperature > 0}
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

func savedScores(name, alias string, scores map[string]float64) map[string]any {
	saved := map[string]any{"name": name, "alias": alias}
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
