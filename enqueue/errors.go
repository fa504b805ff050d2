package enqueue

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/queue"
)

// ErrorGroups has the input's line numbers of a batch's failed rows, first by error code and then
// by message.
type ErrorGroups map[string]map[string][]int

// ReadErrors reads the errors of a batch.
func ReadErrors(ctx context.Context, q queue.Store, batch string) (ErrorGroups, error) {
	g := ErrorGroups{}
	err := queue.Errors(ctx, q, batch, func(e queue.RowError) error {
		if g[e.Code] == nil {
			g[e.Code] = map[string][]int{}
		}
		g[e.Code][e.Message] = append(g[e.Code][e.Message], e.Line)
		return nil
	})
	return g, err
}

// Codes returns the error codes, sorted.
func (g ErrorGroups) Codes() []string { return slices.Sorted(maps.Keys(g)) }

// OtherCodes says which error codes the rows have, for a code that none of them has.
func (g ErrorGroups) OtherCodes(code string) string {
	codes := g.Codes()
	if len(codes) == 0 {
		return "none has failed"
	}
	return fmt.Sprintf("none failed with the code %q; the codes are %s%s", code, strings.Join(codes, ", "), textfmt.DidYouMean(code, codes))
}

// Write prints the groups, the one with the most rows first.
func (g ErrorGroups) Write(w io.Writer) error {
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
		fmt.Fprintf(&text, "%s: %s\n", textfmt.Printable(code.text), textfmt.Count(len(code.lines), "row"))
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
