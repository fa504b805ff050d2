package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

func newRender() *cobra.Command {
	var template, now string
	cmd := &cobra.Command{
		Use:   "render --template FILE",
		Short: "Render a chat template: a JSON context on stdin, the prompt on stdout",
		Long: `Render reads the variables of a chat template from stdin, as one JSON object, and writes exactly the prompt
to stdout, without a newline at the end. The object holds what the template reads: messages, tools,
add_generation_prompt, bos_token, eos_token, and so on.`,
		Example: `  echo '{"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true}' |
    ingot render --template chat_template.jinja
  ingot render --template chat_template.jinja --now 2026-01-02 < context.json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if template == "" {
				return usagef("--template FILE is missing")
			}
			at, err := parseNow(now)
			if err != nil {
				return err
			}
			return render(template, at, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&template, "template", "", "`FILE` of the template, in Jinja")
	cmd.Flags().StringVar(&now, "now", "", "`DATE` that the template prints, such as 2026-01-02 or 2026-01-02T15:04:05Z (default now)")
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

func render(template string, now time.Time, in io.Reader, out io.Writer) error {
	source, err := readWholeFile(template)
	if err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	t, err := jinja.Parse(template, string(source))
	if err != nil {
		return fmt.Errorf("parse template: %w", err)
	}
	raw, err := readWhole(in)
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
	prompt, err := t.Render(ctx, now)
	if err != nil {
		return fmt.Errorf("render template: %w", err)
	}
	if _, err := io.WriteString(out, prompt); err != nil {
		return fmt.Errorf("write prompt: %w", err)
	}
	return nil
}
