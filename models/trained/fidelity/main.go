// Fidelity compares Ingot with transformers in float32 on a trained model: log-probabilities of
// fixed texts, and the most probable token at each position.
//
//	go run ./models/trained/fidelity --model SmolLM2.gguf --references models/trained/testdata/smollm2.jsonl.gz
//
// Settings are those of ingot, as flags or environment variables (INGOT_BACKEND=cuda). On a
// processor with AVX-512, GODEBUG=cpu.avx512vnni=off selects the kernels for AVX2.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/models/trained"
)

type flags struct {
	references string
	write      string
	tokens     int
	generated  bool
}

func main() {
	set := pflag.NewFlagSet("fidelity", pflag.ExitOnError)
	var f flags
	set.StringVar(&f.references, "references", "", "compare with `FILE`, which references.py wrote")
	set.StringVar(&f.write, "write", "", "write the computed log-probabilities to `FILE`, as references for other files of the model")
	set.IntVar(&f.tokens, "tokens", 0, "use the first chunks with `N` tokens or a few more; 0 for all")
	set.BoolVar(&f.generated, "generated", false, "compute the texts token by token, as answers; without it, as prompts")
	config.AddFlag(set, config.Model, config.Backend, config.Device, config.Kernels, config.Threads, config.Precision, config.KV, config.Concurrency)
	set.Parse(os.Args[1:]) //nolint:errcheck // ExitOnError
	if err := f.run(set); err != nil {
		fmt.Fprintln(os.Stderr, "fidelity:", err)
		os.Exit(1)
	}
}

func (f *flags) run(set *pflag.FlagSet) error {
	cfg, err := config.Load(set)
	if err != nil {
		return err
	}
	chunks, err := trained.ReadChunks(f.references, f.tokens)
	if err != nil {
		return err
	}
	types, err := trained.Types(cfg.Model)
	if err != nil {
		return err
	}
	fmt.Println("weights:", types)
	l := &launch.Launch{Config: cfg, Log: slog.New(slog.DiscardHandler)}
	start := time.Now()
	results, err := f.compute(l, chunks)
	if err != nil {
		return err
	}
	fmt.Printf("%.1f s\n", time.Since(start).Seconds())
	if f.write != "" {
		return trained.WriteChunks(f.write, chunks, results)
	}
	return trained.Print(os.Stdout, chunks, results)
}

func (f *flags) compute(l *launch.Launch, chunks []trained.Chunk) (results []trained.Result, err error) {
	ctx := context.Background()
	if f.generated {
		be, err := l.Backend()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, be.Close()) }()
		fmt.Println(be.Device(), be.Arithmetic(), "generated")
		return trained.Generated(ctx, l.Config.Model, be, chunks, trained.Steps{Streams: l.Config.Concurrency, KV: l.Config.Engine.KV})
	}
	opts := launch.EngineOptions(l.Config)
	for i := range chunks {
		opts.Context = max(opts.Context, len(chunks[i].IDs)+1)
	}
	eng, err := l.Engine(l.Config.Model, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	info := eng.Info()
	fmt.Println(info.Device, info.Arithmetic, "prompts")
	return trained.Prompts(ctx, eng, chunks)
}
