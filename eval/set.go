package eval

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ingot-run/ingot/eval/task"
	"github.com/ingot-run/ingot/internal/ordered"
)

// Item is a row of a task with its prompt.
type Item struct {
	Number  int // number of the row in the file of rows, from 0
	Doc     json.RawMessage
	Prompt  task.Prompt
	Cluster string // the row's value in the column that Task.Cluster names; empty without such a column
}

// Set is a task with its items.
type Set struct {
	*task.Task
	Items   []Item
	Hash    string         // hash of the task's settings and prompts; scores are comparable only if it is equal
	Skipped map[string]int // number of rows that are left out, by reason
	NoRight []int          // numbers of the rows of which no choice is right; they score 0, as in the harness
	Empty   []int          // numbers of the rows whose targets are empty, so that they score 0 by the metric contains
}

const maxRow = 16 << 20

// Load reads the rows of a task and makes their prompts. limit is the maximum number of rows; 0 for
// all.
func Load(t *task.Task, limit int) (*Set, error) {
	if t.Data == "" {
		why := ""
		if t.NoData != nil {
			why = t.NoData.Error() + ": "
		}
		return nil, fmt.Errorf("load task %s: its rows are missing: %sname their file with \"data\" in the task, or with --data", t.Name, why)
	}
	docs, objects, err := taskRows(t, t.Data)
	if err != nil {
		return nil, fmt.Errorf("load task %s: %w", t.Name, err)
	}
	shots, err := newExamples(t, objects)
	if err != nil {
		return nil, fmt.Errorf("load task %s: %w", t.Name, err)
	}
	s := &Set{Task: t, Skipped: map[string]int{}}
	hash := sha256.New()
	settings, err := json.Marshal([]any{t.Type, t.Repeats, t.Chat, t.Multiturn, t.Generation, t.Rubric})
	if err != nil {
		return nil, fmt.Errorf("load task %s: %w", t.Name, err)
	}
	hash.Write(settings)
	for i, doc := range docs {
		if limit > 0 && len(s.Items) == limit {
			break
		}
		chosen, err := shots.choose(objects[i])
		if err != nil {
			return nil, fmt.Errorf("load task %s: row %d of %s: %w", t.Name, i+1, t.Data, err)
		}
		p, err := t.Prompt(objects[i], chosen)
		if errors.Is(err, task.ErrSkip) {
			s.Skipped[err.Error()]++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("load task %s: row %d of %s: %w", t.Name, i+1, t.Data, err)
		}
		cluster, err := clusterOf(doc, t.Cluster)
		if err != nil {
			return nil, fmt.Errorf("load task %s: row %d of %s: cluster: %w", t.Name, i+1, t.Data, err)
		}
		s.Items = append(s.Items, Item{i, doc, p, cluster})
		if t.Type == task.MultipleChoice && p.Right < 0 {
			s.NoRight = append(s.NoRight, i)
		}
		if t.Unreachable(&p) {
			s.Empty = append(s.Empty, i)
		}
		if err := checkChoices(t, &p); err != nil {
			return nil, fmt.Errorf("load task %s: row %d of %s: %w", t.Name, i+1, t.Data, err)
		}
		fmt.Fprintf(hash, "%q %q %q %q %d %d\n", p.Context, p.Contexts, p.Choices, p.Targets, p.Right, p.Rights) //nolint:errcheck // a hash does not fail
	}
	if len(s.Items) == 0 {
		reason := "the file has no rows"
		for skipped := range s.Skipped {
			reason = "for example, " + skipped
		}
		return nil, fmt.Errorf("load task %s: no row of %s can be used: %s", t.Name, t.Data, reason)
	}
	if len(s.NoRight) == len(s.Items) {
		p := s.Items[0].Prompt
		return nil, fmt.Errorf("load task %s: doc_to_target gives none of the choices in any row of %s: row %d has the choices %.200q, without delimiter", t.Name, t.Data, s.NoRight[0]+1, p.Choices)
	}
	if len(s.Empty) == len(s.Items) {
		return nil, fmt.Errorf("load task %s: doc_to_target gives an empty text in every row of %s, which the metric contains cannot find in an answer", t.Name, t.Data)
	}
	s.Hash = hex.EncodeToString(hash.Sum(nil))
	return s, nil
}

// checkChoices checks that a row fits the metrics of its task, as the harness does.
func checkChoices(t *task.Task, p *task.Prompt) error {
	metric := t.NeedsRight()
	if metric == "" {
		return nil
	}
	if p.Right < 0 || slices.Contains(p.Rights, -1) || len(p.Rights) > 0 && metric != "exact_match" {
		return fmt.Errorf("metric %s needs one right choice, but doc_to_target gives none or a list", metric)
	}
	for _, m := range t.Metrics {
		if m.Name == "f1" && m.Aggregation == "f1" && len(p.Choices) != 2 {
			return fmt.Errorf("metric f1 needs two choices, but the row has %d: use mcc", len(p.Choices))
		}
	}
	return nil
}

// clusterOf returns a row's value in a column, as text. A row without a value is an error: such
// rows would count as one observation, or as one each, and both would make verdicts wrong.
func clusterOf(doc json.RawMessage, column string) (string, error) {
	if column == "" {
		return "", nil
	}
	var values map[string]json.RawMessage
	json.Unmarshal(doc, &values) //nolint:errcheck // it is a JSON object
	raw := values[column]
	text := string(raw)
	json.Unmarshal(raw, &text) //nolint:errcheck // a value that is not a string is left as JSON
	if string(raw) == "null" || text == "" {
		return "", fmt.Errorf("the row has no value in the column %q", column)
	}
	return text, nil
}

// taskRows reads the rows of a task from a file, and changes them as the task does.
func taskRows(t *task.Task, path string) (docs []json.RawMessage, objects []*ordered.Object, err error) {
	lines, rows, err := readRows(path, t.Fields[path])
	if err != nil {
		return nil, nil, err
	}
	unifyNumbers(rows)
	if objects, err = t.Rows(rows); err != nil {
		return nil, nil, fmt.Errorf("change the rows of %s: %w", path, err)
	}
	unchanged := map[*ordered.Object]json.RawMessage{}
	for i, row := range rows {
		unchanged[row] = lines[i]
	}
	for _, row := range objects {
		doc, ok := unchanged[row]
		if !ok {
			doc = json.RawMessage(task.RowKey(row))
		}
		docs = append(docs, doc)
	}
	return docs, objects, nil
}

// readRows reads a file of rows: JSON Lines, or one JSON value (see readDocument). field is the
// field that has the rows.
func readRows(path, field string) (docs []json.RawMessage, objects []*ordered.Object, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read rows: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	if field != "" || isList(f) {
		return readDocument(path, field)
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxRow)
	n := 1
	for ; lines.Scan(); n++ {
		line := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))) // a file from Windows may begin with a byte order mark
		if len(line) == 0 {
			continue
		}
		v, err := ordered.ParseJSON(line)
		object, ok := v.(*ordered.Object)
		if err == nil && !ok {
			err = errors.New("the row is not a JSON object")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s:%d: %w: rows are JSON Lines, a JSON object on each line", path, n, err)
		}
		docs, objects = append(docs, bytes.Clone(line)), append(objects, object)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, nil, fmt.Errorf("read %s:%d: the row has more than %d MiB", path, n, maxRow>>20)
	} else if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return docs, objects, nil
}
