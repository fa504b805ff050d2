package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/metal/drivers"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// completeTime is the time that a shell waits for the names of batches.
const completeTime = time.Second

// addCompletion lets shells complete the values of flags, and the names of models and batches.
func addCompletion(cmd *cobra.Command) {
	values := flagValues()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		switch list, known := values[f.Name]; {
		case f.Name == string(config.Model):
			complete = completeModels
		case known:
			complete = cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
		default:
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // the flag was just found, and no other function is registered
		}
	})
	if strings.Contains(cmd.Use, "BATCH") && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = completeBatches
	}
	for _, sub := range cmd.Commands() {
		addCompletion(sub)
	}
}

// flagValues returns the values of flags that have a fixed list of them.
func flagValues() map[string][]cobra.Completion {
	values := map[string][]cobra.Completion{
		string(config.KV):        {"f32", "f16", "q8_0", "q4_0"},
		string(config.Sampling):  {"recommended", "plain"},
		string(config.Draft):     {"auto", "mtp", "ngram", "off"},
		string(config.LogLevel):  {"debug", "info", "warn", "error"},
		string(config.LogFormat): {"text", "json"},
		string(config.Backend):   {config.BackendAuto, config.BackendCPU},
		"unknown-fields":         {unknownError, unknownIgnore},
		"types":                  {export.TypesAuto, export.TypesText},
		"keep-finish":            export.FinishReasons,
		"shape":                  {string(prompt.Auto)},
		"format":                 {string(table.Auto)},
	}
	for _, d := range drivers.All() {
		values[string(config.Backend)] = append(values[string(config.Backend)], d.Name)
	}
	for p := range queue.Priorities() {
		values[string(config.Priority)] = append(values[string(config.Priority)], string(p))
	}
	for name, text := range prompt.Shapes() {
		values["shape"] = append(values["shape"], cobra.CompletionWithDesc(string(name), text))
	}
	for name, text := range table.Formats() {
		values["format"] = append(values["format"], cobra.CompletionWithDesc(string(name), text))
	}
	for _, f := range export.Formats {
		values["output-format"] = append(values["output-format"], string(f))
	}
	return values
}

// completeModels returns the models on this machine and those of the catalog; the shell adds files.
func completeModels(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, m := range modelStore().List() {
		names = append(names, cobra.CompletionWithDesc(m.Name, m.Owner))
	}
	for _, e := range hub.Catalog {
		if !slices.ContainsFunc(names, func(c cobra.Completion) bool { return strings.HasPrefix(c, e.Name+"\t") }) {
			names = append(names, cobra.CompletionWithDesc(e.Name, e.For))
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// completeBatches returns the batches in Redis, if the settings name a server that answers soon.
func completeBatches(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	cfg, err := config.Load(cmd.Flags())
	if err != nil || cfg.Redis == "" || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	q, _, err := redisqueue.Dial(ctx, cfg.Redis, 1, func(string) {})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer q.Close() //nolint:errcheck // Redis has answered every command
	all, err := q.Batches(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, s := range all {
		if s.Priority != queue.Interactive && s.Damage == "" {
			names = append(names, cobra.CompletionWithDesc(s.Batch, string(s.State)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
