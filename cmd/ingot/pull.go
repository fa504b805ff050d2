package main

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/hub"
	"github.com/ingot-run/ingot/internal/progress"
)

func newPull() *cobra.Command {
	return &cobra.Command{
		Use:   "pull NAME",
		Short: "Download a model",
		Long: `Pull downloads a model from Hugging Face or any web server, and prints the path of its file. After that, --model NAME
finds the model on this machine. No other command downloads anything. To continue an interrupted download, repeat the
command.

  qwen3-4b                       a short name: "ingot models" lists them
  user/repo                      the file in Q4_K_M, else in Q8_0, else the first file
  user/repo:Q6_K                 the file with this quantisation
  user/repo:folder/file.gguf     this file, with the other files of its model if there are several
  user/repo@REVISION:Q6_K        the file at a branch, tag or commit; hf.co/user/repo and web addresses work too
  https://host/file.gguf#sha256=HEX    a file of another server; the hash is optional

Files are stored in the cache of Hugging Face's own tools, and models that those tools downloaded are found there. HF_TOKEN,
HF_HOME, HF_HUB_CACHE, HF_ENDPOINT and HF_HUB_OFFLINE have the same meaning as for these tools. Every file is checked against the
SHA-256 that the hub has for it.`,
		Example: `  ingot pull Qwen/Qwen3-4B-GGUF:Q4_K_M
  ingot run prompts.jsonl -o answers.jsonl --model Qwen/Qwen3-4B-GGUF:Q4_K_M
  HF_TOKEN=hf_... ingot pull user/private-model-GGUF@v1.0:Q8_0`,
		Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := settings(cmd); err != nil {
				return err
			}
			name, err := hub.ParseName(args[0])
			if err != nil {
				return &usageError{err}
			}
			return pull(cmd, name)
		},
	}
}

// pull downloads a model, shows the progress, and prints the path of its file.
func pull(cmd *cobra.Command, name hub.Name) error {
	stderr := cmd.ErrOrStderr()
	show := progress.New(stderr, progress.Options{Terminal: isTerminal(stderr), Bytes: true})
	defer show.Close()
	start := time.Now()
	got, err := hub.NewPuller(hub.Options{
		Env: hub.ReadEnv(), Version: programVersion(),
		Note: func(text string) { fmt.Fprintln(show, printable(text)) }, //nolint:errcheck // a note on the terminal
		Moved: func(p hub.Progress) {
			show.Show(progress.Counts{Total: int(p.Total), Before: int(p.Done - p.Moved), Done: int(p.Moved)})
		},
	}).Pull(cmd.Context(), name)
	show.Close()
	if err != nil {
		return err
	}
	cmd.PrintErrln(pulled(got, time.Since(start)))
	_, err = fmt.Fprintln(cmd.OutOrStdout(), got.Path)
	return err
}

// pulled describes a finished download in one line.
func pulled(got hub.Pulled, took time.Duration) string {
	size := humanize.Bytes(uint64(got.Bytes))
	switch {
	case got.Owner != "":
		return fmt.Sprintf("%s: %s has the model already", size, got.Owner)
	case got.Moved == 0:
		return size + ": the model is on this machine already"
	}
	text := fmt.Sprintf("%s in %s, %s/s", humanize.Bytes(uint64(got.Moved)), took.Round(100*time.Millisecond), humanize.Bytes(uint64(perSecond(int(got.Moved), took))))
	if got.Commit != "" {
		return text + ", SHA-256 matches the hub's"
	}
	return text + ", SHA-256 " + got.SHA256
}

// modelFile returns the path of a model's file, given its path or a model name. It makes no network request.
func modelFile(name string) (string, error) {
	n, err := hub.ParseName(name)
	if err != nil {
		return "", fmt.Errorf("find the model: %w", err)
	}
	found, err := hub.Store{Env: hub.ReadEnv()}.Find(n)
	return found.Path, err
}
