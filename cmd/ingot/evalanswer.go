package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/enqueue/fleet"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/remote"
	"github.com/ingot-run/ingot/files/export"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/filesum"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/worker/local"
)

const openAIKey = "OPENAI_API_KEY"

// answerer selects what answers requests: a model file, a server or a fleet's workers. The first
// field that is set decides.
type answerer struct {
	model string // path of a model file on this machine
	url   string
	name  string // of a server: the model's name, empty for its only model; of a fleet: the model name that workers serve
	key   string // name of the environment variable with the server's API key
}

func (a answerer) shown() string {
	if a.model != "" {
		return filepath.Base(a.model)
	}
	return a.name
}

// server returns the server's address for the results of the run, without the password.
func (a answerer) server() string {
	u, err := url.Parse(a.url)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

// cacheOf returns the cache of a model's answers. Answers of a local model are reused only with the
// same program, model file, backend, device, kernels, precision, type of KV cache and context.
func (e *evalRun) cacheOf(ctx context.Context, who answerer) (*eval.Cache, error) {
	switch {
	case who.model != "":
		program, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("cache answers: %w", err)
		}
		sum, err := filesum.SHA256(ctx, program, who.model)
		if err != nil {
			return nil, fmt.Errorf("cache answers: %w", err)
		}
		cfg := e.cfg
		identity := fmt.Sprintf("%s %s %d %v %v %v %d %s", runtime.GOARCH, cfg.Backend, cfg.Device, cfg.Kernels, cfg.Precision, cfg.Engine.KV, cfg.Engine.Context, sum)
		return &eval.Cache{Folder: e.cache, Identity: identity, Batch: local.Batch}, nil
	case who.url != "":
		client, err := e.client(ctx, who)
		if err != nil {
			return nil, err
		}
		return &eval.Cache{Folder: e.cache, Identity: who.url + " " + client.Model(), Batch: remote.Batch}, nil
	}
	return nil, usagef("--cache is for --model and --base-url: the workers of a fleet may have any model")
}

// ask sends the requests that have no answer yet to the selected model, and writes the answers.
func (e *evalRun) ask(ctx context.Context, who answerer, requests, answers string) error {
	switch {
	case who.model != "":
		err := e.askModel(ctx, who.model, requests, answers)
		if errors.Is(err, local.ErrOtherModel) {
			return fmt.Errorf("%s has answers of another model, or of other settings: give an empty directory, or the model and settings of that run", filepath.Dir(answers))
		}
		return err
	case who.url != "":
		return e.askServer(ctx, who, requests, answers)
	}
	return e.askFleet(ctx, who.name, requests, answers)
}

func (e *evalRun) askModel(ctx context.Context, model, requests, answers string) error {
	from := requestLines
	job, err := newJob(e.cmd, e.cfg, &from, []string{requests})
	if err != nil {
		return err
	}
	defer job.In.Close() //nolint:errcheck // the file was only read
	job.Models, job.Open = []local.Model{{Name: model}}, openEngine(e.cfg, "", nil, nil)
	job.Out = &export.Output{Path: answers, Format: export.Batch}
	_, err = job.Run(ctx)
	return err
}

func (e *evalRun) client(ctx context.Context, who answerer) (*remote.Client, error) {
	return remote.New(ctx, remote.Options{
		URL: who.url, Key: os.Getenv(who.key), KeyName: "the variable " + who.key, Model: who.name, Concurrency: e.cfg.Concurrency,
	})
}

func (e *evalRun) checkEcho(ctx context.Context, sets []*eval.Set) error {
	var needs []string
	for _, s := range sets {
		if !s.Type.Generates() && !slices.Contains(needs, string(s.Type)) {
			needs = append(needs, string(s.Type))
		}
	}
	if e.who.url == "" || needs == nil {
		return nil
	}
	c, err := e.client(ctx, e.who)
	if err != nil {
		return err
	}
	err = c.CheckEcho(ctx)
	if errors.Is(err, remote.ErrNoEcho) || errors.Is(err, remote.ErrWrongEcho) {
		return fmt.Errorf("%w; tasks of type %s need the log-probabilities of prompts: run them with --model or --redis, or on another server", err, strings.Join(needs, " and "))
	}
	return err
}

func (e *evalRun) askServer(ctx context.Context, who answerer, requests, answers string) error {
	c, err := e.client(ctx, who)
	if err != nil {
		return err
	}
	d := newDisplay(e.cmd.ErrOrStderr())
	p, codes, err := c.RunFile(ctx, requests, answers, func(total int, p remote.Progress) {
		d.Show(progress.Counts{Total: total, Before: p.Kept, Done: p.Done, Failed: p.Failed, Tokens: p.CompletionTokens})
	})
	d.Close()
	if p.Elapsed > 0 {
		e.cmd.PrintErrln(p.String() + ", " + progress.Figures(p.Done+p.Failed, p.PromptTokens, p.CompletionTokens, p.Elapsed))
	}
	printFailures(e.cmd, "", codes)
	if ctx.Err() != nil {
		return errors.New("stopped before all rows were answered: run the same command again to continue")
	}
	return err
}

// askFleet queues the requests as a batch and waits for the results. The batch id is stored in the
// run's directory.
func (e *evalRun) askFleet(ctx context.Context, alias, requests, answers string) error {
	if err := e.cfg.Require(config.Redis); err != nil {
		return &usageError{err}
	}
	q, err := dial(e.cmd, e.cfg)
	if err != nil {
		return err
	}
	defer q.Close() //nolint:errcheck // Redis has answered every command
	batch, err := eval.StoredID(answers, func() string { return "eval-" + enqueue.NewBatchID() })
	if err != nil {
		return err
	}
	if err := enqueueRequests(ctx, q, requests, enqueue.Options{Batch: batch, Alias: alias}); err != nil {
		return err
	}
	r := fleet.Collection{Queue: q, Batch: batch, Out: &export.Output{Path: answers, Format: export.Batch}, Follow: true, Stderr: e.cmd.ErrOrStderr()}
	sum, err := r.Run(ctx)
	if err == nil && !sum.Finished {
		err = errors.New("the batch has not finished: run the same command again to wait for it")
	}
	return err
}

func enqueueRequests(ctx context.Context, q *redisqueue.Queue, path string, opts enqueue.Options) error {
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	defer in.Close() //nolint:errcheck // the file was only read
	opts.Priority, opts.Format, opts.Version = queue.Default, rows.FormatJSONL, programVersion()
	_, err = enqueue.Enqueue(ctx, q, in, opts)
	return err
}
