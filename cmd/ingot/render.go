package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/files/prompt"
	"github.com/ingot-run/ingot/internal/ordered"
)

type renderCommand struct{ template, now string }

func newRender() *cobra.Command {
	var c renderCommand
	cmd := &cobra.Command{
		Use:   "render --template FILE",
		Short: "Render a chat template: a JSON context on stdin, the prompt on stdout",
		Args:  arguments(),
		RunE:  c.run,
	}
	cmd.Flags().StringVar(&c.template, "template", "", "`FILE` of the template, in Jinja")
	cmd.Flags().StringVar(&c.now, "now", "", "`DATE` that the template prints, such as 2026-01-02 or 2026-01-02T15:04:05Z (default now)")
	return cmd
}

func parseNow(s string) (time.Time, error) {
	if s == "" {
		return time.Now(), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--now %q is not a date: use 2026-01-02 or 2026-01-02T15:04:05Z", s)
}

func (c *renderCommand) run(cmd *cobra.Command, _ []string) error {
	if c.template == "" {
		return usagef("--template FILE is missing")
	}
	now, err := parseNow(c.now)
	if err != nil {
		return err
	}
	source, err := prompt.ReadTextFile(c.template)
	if err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	t, err := jinja.Parse(c.template, string(source))
	if err != nil {
		return fmt.Errorf("parse template: %w", err)
	}
	raw, err := prompt.ReadText(cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("read context from stdin: %w", err)
	}
	value, err := ordered.ParseJSON(raw)
	if err != nil {
		return fmt.Errorf("read context from stdin: %w", err)
	}
	ctx, ok := value.(*ordered.Object)
	if !ok {
		return fmt.Errorf("read context from stdin: the text is not a JSON object")
	}
	text, err := t.Render(ctx, now)
	if err != nil {
		return fmt.Errorf("render template: %w", err)
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
		return fmt.Errorf("write prompt: %w", err)
	}
	return nil
}
