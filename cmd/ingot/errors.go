package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

func newErrors() *cobra.Command {
	var asJSON bool
	cmd := redisCommand(&cobra.Command{
		Use:   "errors BATCH --redis URL",
		Short: "List the rows of a batch that failed, and why",
		Args:  arguments("BATCH"),
	}, func(cmd *cobra.Command, q *redisqueue.Queue, args []string) error {
		if _, err := q.Status(cmd.Context(), args[0]); err != nil {
			return fmt.Errorf("read errors: %w", err)
		}
		if asJSON {
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetEscapeHTML(false)
			return queue.Errors(cmd.Context(), q, args[0], func(e queue.RowError) error { return enc.Encode(e) })
		}
		g := errorGroups{}
		if err := queue.Errors(cmd.Context(), q, args[0], g.add); err != nil {
			return err
		}
		if len(g) == 0 {
			cmd.PrintErrf("no row of %s failed\n", args[0])
		}
		return g.write(cmd.OutOrStdout())
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object per error line")
	return cmd
}

// errorGroups has the input's line numbers of failed rows, first by error code and then by message.
type errorGroups map[string]map[string][]int

func (g errorGroups) add(e queue.RowError) error {
	if g[e.Code] == nil {
		g[e.Code] = map[string][]int{}
	}
	g[e.Code][e.Message] = append(g[e.Code][e.Message], e.Line)
	return nil
}

// write prints the groups, the one with the most rows first.
func (g errorGroups) write(w io.Writer) error {
	type group struct {
		text  string
		lines []int
	}
	bySize := func(a, b group) int { return cmp.Or(len(b.lines)-len(a.lines), strings.Compare(a.text, b.text)) }
	var codes []group
	for code, messages := range g {
		all := group{text: code}
		for _, lines := range messages {
			all.lines = append(all.lines, lines...)
		}
		codes = append(codes, all)
	}
	slices.SortFunc(codes, bySize)
	var text strings.Builder
	for _, code := range codes {
		fmt.Fprintf(&text, "%s: %s\n", textfmt.Printable(code.text), countRows(len(code.lines)))
		var messages []group
		for message, lines := range g[code.text] {
			messages = append(messages, group{message, lines})
		}
		slices.SortFunc(messages, bySize)
		for _, m := range messages {
			fmt.Fprintf(&text, "  %s: %s\n", lineRanges(m.lines), textfmt.Printable(m.text))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

const maxRanges = 20

// lineRanges formats line numbers as ranges, such as "1-3, 7".
func lineRanges(lines []int) string {
	slices.Sort(lines)
	var ranges []string
	for i := 0; i < len(lines); {
		first, last := lines[i], lines[i]
		for i++; i < len(lines) && lines[i] <= last+1; i++ {
			last = lines[i]
		}
		if len(ranges) == maxRanges {
			ranges = append(ranges, fmt.Sprintf("and %d more", len(lines[i-1:])))
			break
		}
		if first == last {
			ranges = append(ranges, fmt.Sprint(first))
		} else {
			ranges = append(ranges, fmt.Sprintf("%d-%d", first, last))
		}
	}
	name := "lines "
	if len(lines) == 1 {
		name = "line "
	}
	return name + strings.Join(ranges, ", ")
}
