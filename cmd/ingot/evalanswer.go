package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/eval"
	"github.com/ingot-run/ingot/eval/remote"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/internal/progress"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/worker/local"
)

// openAIKey is the environment variable from which OpenAI's own clients read the API key.
const openAIKey = "OPENAI_API_KEY"

// answerer selects the model that answers requests: a file on this machine, a model of a server, or a model of a fleet's workers. The first
// field that is set decides.
type answerer struct {
	model string // path of a model file on this machine
	url   string // URL of a server
	name  string // of a server: the model's name, empty for its only model; of a fleet: the model name that workers serve
	key   string // name of the environment variable with the server's API key
}

// shown returns the model's name for the results of the run.
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

// choose selects the model that answers and the model that judges.
func (e *evaluation) choose(sets []*eval.Set) error {
	cfg, err := settings(e.cmd)
	if err != nil {
		return err
	}
	switch {
	case e.who.url == "":
		e.who.model, e.who.name = cfg.Model, cfg.ModelName
	case e.cmd.Flags().Changed(string(config.Model)):
		return usagef("--model and --base-url cannot be combined: give one")
	}
	if e.who.model == "" && e.who.url == "" && cfg.Redis == "" {
		return usagef("a model is missing: give --model FILE to run on this machine, --base-url URL to use a server, or --redis URL to use a fleet")
	}
	if eval.Judged(sets) && e.judge.model == "" && e.judge.url == "" && e.judge.name == "" {
		return usagef("a task of type judge needs a second model: give --judge-model FILE, --judge-base-url URL, or --judge-model-name NAME of a fleet")
	}
	for _, model := range []*string{&e.who.model, &e.judge.model} {
		if *model != "" {
			if *model, err = modelFile(*model); err != nil {
				return err
			}
		}
	}
	return nil
}

// answer sends the requests in one file of the run's directory to a model, and writes the answers to another. from and to are the names of
// these files. With --cache, only requests without a cached answer are sent.
func (e *evaluation) answer(who answerer, from, to string) error {
	requests, answers := filepath.Join(e.folder, from), filepath.Join(e.folder, to)
	if e.cache == "" {
		return e.ask(who, requests, answers)
	}
	c, batch, err := e.cacheOf(who)
	if err != nil {
		return err
	}
	out, err := openOutput(e.cmd, answers, batch)
	if err != nil {
		return err
	}
	n, err := c.Fill(e.cmd.Context(), requests, out)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	e.cmd.PrintErrln(countRows(n) + " from the cache")
	if err := e.ask(who, requests, answers); err != nil {
		return err
	}
	return c.Store(e.cmd.Context(), requests, answers)
}

// cacheOf returns the cache of a model's answers, and the batch id that goes into the output with each answer. Answers of a local model are
// reused only with the same program, model file, backend, device, kernels, type of KV cache and context.
func (e *evaluation) cacheOf(who answerer) (c *eval.Cache, batch string, err error) {
	switch {
	case who.model != "":
		cfg, err := settings(e.cmd)
		if err != nil {
			return nil, "", err
		}
		program, err := os.Executable()
		if err != nil {
			return nil, "", fmt.Errorf("cache answers: %w", err)
		}
		identity := fmt.Sprintf("%s %s %d %v %v %d", runtime.GOARCH, cfg.Backend, cfg.Device, cfg.Kernels, cfg.Engine.KV, cfg.Engine.Context)
		for _, path := range []string{program, who.model} {
			sum, err := sumOfFile(path)
			if err != nil {
				return nil, "", fmt.Errorf("cache answers: %w", err)
			}
			identity += " " + sum
		}
		return &eval.Cache{Folder: e.cache, Identity: identity}, local.Batch, nil
	case who.url != "":
		client, err := e.client(e.cmd.Context(), who)
		if err != nil {
			return nil, "", err
		}
		return &eval.Cache{Folder: e.cache, Identity: who.url + " " + client.Model()}, remote.Batch, nil
	}
	return nil, "", usagef("--cache is for --model and --base-url: the workers of a fleet may have any model")
}

// sumOfFile returns the SHA-256 of a file in hexadecimal.
func sumOfFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// ask sends the requests that have no answer yet to the selected model, and writes the answers. requests and answers are the paths of
// files.
func (e *evaluation) ask(who answerer, requests, answers string) error {
	switch {
	case who.model != "":
		cfg, err := settings(e.cmd)
		if err != nil {
			return err
		}
		r := runner{
			cmd: e.cmd, cfg: cfg, in: []string{requests}, from: &requestLines, out: answersFile(answers), models: []namedModel{{file: who.model}},
		}
		_, err = r.run(e.cmd.Context())
		return err
	case who.url != "":
		return e.answerByServer(who, requests, answers)
	}
	cfg, err := settings(e.cmd, config.Redis)
	if err != nil {
		return err
	}
	cfg.ModelName = who.name
	return e.answerByFleet(cfg, requests, answers)
}

// client returns a client of the server that an answerer names.
func (e *evaluation) client(ctx context.Context, who answerer) (*remote.Client, error) {
	cfg, err := settings(e.cmd)
	if err != nil {
		return nil, err
	}
	return remote.New(ctx, remote.Options{
		URL: who.url, Key: os.Getenv(who.key), KeyName: "the variable " + who.key, Model: who.name, Concurrency: cfg.Concurrency,
	})
}

// checkEcho checks that the server, if there is one, returns the log-probabilities that the tasks need.
func (e *evaluation) checkEcho(sets []*eval.Set) error {
	var needs []string
	for _, s := range sets {
		if !s.Type.Generates() && !slices.Contains(needs, string(s.Type)) {
			needs = append(needs, string(s.Type))
		}
	}
	if e.who.url == "" || needs == nil {
		return nil
	}
	c, err := e.client(e.cmd.Context(), e.who)
	if err != nil {
		return err
	}
	err = c.CheckEcho(e.cmd.Context())
	if errors.Is(err, remote.ErrNoEcho) || errors.Is(err, remote.ErrWrongEcho) {
		return fmt.Errorf("%w; tasks of type %s need the log-probabilities of prompts: run them with --model or --redis, or on another server", err, strings.Join(needs, " and "))
	}
	return err
}

// answerByServer sends the requests that have no answer yet to a server, and writes the answers. requests and answers are the paths of
// files.
func (e *evaluation) answerByServer(who answerer, requests, answers string) (err error) {
	ctx := e.cmd.Context()
	c, err := e.client(ctx, who)
	if err != nil {
		return err
	}
	in, err := os.Open(requests)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	defer in.Close() //nolint:errcheck // the file was only read
	total, err := rows.Count(in, rows.FormatJSONL)
	if err == nil {
		_, err = in.Seek(0, 0)
	}
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	out, err := openOutput(e.cmd, answers, remote.Batch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	d := newDisplay(e.cmd.ErrOrStderr())
	p, err := c.Run(ctx, in, out, func(p remote.Progress) {
		d.Show(progress.Counts{Total: total, Before: p.Kept, Done: p.Done, Failed: p.Failed, Tokens: p.CompletionTokens})
	})
	d.Close()
	e.cmd.PrintErrln(remoteSummary(p))
	if codes := out.Codes(); len(codes) > 0 {
		e.cmd.PrintErrln("errors: " + errorsByCode(codes))
	}
	if ctx.Err() != nil {
		return errors.New("stopped before all rows were answered: run the same command again to continue")
	}
	return err
}

// remoteSummary describes a finished run in one line.
func remoteSummary(p remote.Progress) string {
	text := countRows(p.Done+p.Failed) + " done"
	if p.Failed > 0 {
		text += fmt.Sprintf(" (%d failed)", p.Failed)
	}
	if p.Kept > 0 {
		text += fmt.Sprintf(", %d kept", p.Kept)
	}
	if p.Retries > 0 {
		text += ", " + count(p.Retries, "request") + " sent again"
	}
	return text + ", " + tokenFigures(p.Done+p.Failed, p.PromptTokens, p.CompletionTokens, p.Elapsed)
}

// templateSum returns the SHA-256 of the chat template in a model's file; empty if path is empty or the file has no template.
func templateSum(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := gguf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	template := textOf(f.Meta(), "tokenizer.chat_template")
	if template == "" {
		return "", nil
	}
	sum := sha256.Sum256([]byte(template))
	return hex.EncodeToString(sum[:]), nil
}

// answerByFleet queues the requests as a batch and waits for the results. The batch id is stored in the run's directory.
func (e *evaluation) answerByFleet(cfg *config.Config, requests, answers string) error {
	q, err := dial(e.cmd, cfg)
	if err != nil {
		return err
	}
	defer q.Close() //nolint:errcheck // Redis has answered every command
	batch, err := e.batch(filepath.Base(answers))
	if err != nil {
		return err
	}
	in, err := os.Open(requests)
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	defer in.Close() //nolint:errcheck // the file was only read
	_, err = enqueue.Enqueue(e.cmd.Context(), q, in, enqueue.Options{Batch: batch, Alias: cfg.ModelName, Priority: queue.Default, Version: programVersion()})
	if err != nil {
		return err
	}
	r := collecting{cmd: e.cmd, queue: q, batch: batch, output: answersFile(answers), follow: true}
	c, err := r.run(e.cmd.Context())
	if err == nil && !c.Finished {
		err = errors.New("the batch has not finished: run the same command again to wait for it")
	}
	return err
}

// batch returns the batch id for a file of answers. The id is made once per run and stored in the run's directory.
func (e *evaluation) batch(answers string) (string, error) {
	name := "batch"
	if answers == eval.JudgeAnswersFile {
		name = "judge_batch"
	}
	path := filepath.Join(e.folder, name)
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id = []byte("eval-" + enqueue.NewBatchID())
		err = os.WriteFile(path, id, 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("read or store the id of the run's batch: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
