// Package prompt makes requests from the records of tables, with templates over their columns or by
// known shapes of data sets.
package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/openai"
)

// Template makes the messages of a chat from a record. It is safe for concurrent use once all
// messages are added.
type Template struct {
	messages []message
	columns  []string // columns that the templates name
	whole    bool     // a template uses the whole record
	literal  []string // texts of the templates themselves
}

type message struct {
	role string
	text *template.Template
}

// Roles are the roles that messages of a template can have.
var Roles = []string{"system", "user", "assistant"}

// Add appends a message to a chat. text is a template of package text/template in which .name is
// the value of a column. The parameter where is the flag or file of the template, for errors.
func (t *Template) Add(role, where, text string) error {
	parsed, err := template.New(where).Option("missingkey=error").Funcs(functions).Funcs(template.FuncMap{markFunction: markValue}).Parse(text)
	if err != nil {
		return parseError(err, text)
	}
	for _, each := range parsed.Templates() {
		markValues(each.Root)
	}
	t.messages = append(t.messages, message{role, parsed})
	t.visit(parsed.Root, true)
	return nil
}

// marker is the start of a line in a template file that gives the role of the message below.
const marker = "--- "

// AddFile appends the messages of a template file. A line such as "--- user" begins a message. A
// file without such lines is one message of the user. A message does not include its last line end.
func (t *Template) AddFile(where, text string) error {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.HasPrefix(text, marker) {
		if strings.Contains(text, "\n"+marker) {
			return fmt.Errorf("%s: the file begins with text that has no role: put a line such as %q before it", where, marker+"user")
		}
		return t.Add("user", where, strings.TrimSuffix(text, "\n"))
	}
	for part := range strings.SplitSeq("\n"+text, "\n"+marker) {
		if part == "" {
			continue // the empty text before the first marker
		}
		role, body, _ := strings.Cut(part, "\n")
		role = strings.TrimSpace(role)
		if !slices.Contains(Roles, role) {
			return fmt.Errorf("%s: role %q is not known: use %s", where, role, strings.Join(Roles, ", "))
		}
		if err := t.Add(role, where, strings.TrimSuffix(body, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error if a template names a column that is not in columns.
func (t *Template) Check(columns []string) error {
	for _, name := range t.columns {
		if !slices.Contains(columns, name) {
			return fmt.Errorf("there is no column %q: the columns are %s%s%s", name, table.Quoted(columns), table.DelimiterHint(columns), textfmt.DidYouMean(name, columns))
		}
	}
	return nil
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`

	literal [][2]int // parts of Content that come from columns and may be texts of control tokens, in bytes
}

func (t *Template) render(r table.Record) ([]chatMessage, error) {
	values, err := t.values(r)
	if err != nil {
		return nil, err
	}
	list := make([]chatMessage, len(t.messages))
	for i, m := range t.messages {
		text := limitedBuffer{}
		if err := m.text.Execute(&text, values); err != nil {
			return nil, plainError(err)
		}
		list[i] = chatMessage{m.role, text.String(), text.literal}
	}
	return list, nil
}

func (t *Template) values(r table.Record) (object, error) {
	values := object{}
	for _, f := range r.Fields {
		if !t.whole && !slices.Contains(t.columns, f.Name) {
			continue
		}
		v, err := valueOf(f.Value)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		values[f.Name] = v
	}
	for _, name := range t.columns {
		if _, ok := values[name]; !ok {
			return nil, fmt.Errorf("the record has no column %q", name)
		}
	}
	return values, nil
}

// visit collects the columns that a template names. dot reports whether . is the record at this
// node.
func (t *Template) visit(n parse.Node, dot bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, each := range n.Nodes {
			t.visit(each, dot)
		}
	case *parse.TextNode:
		t.literal = append(t.literal, string(n.Text))
	case *parse.ActionNode:
		t.visit(n.Pipe, dot)
	case *parse.IfNode:
		t.branch(&n.BranchNode, dot, dot)
	case *parse.RangeNode:
		t.branch(&n.BranchNode, dot, false)
	case *parse.WithNode:
		t.branch(&n.BranchNode, dot, false)
	case *parse.TemplateNode:
		t.visit(n.Pipe, dot)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, c := range n.Cmds {
			t.visit(c, dot)
		}
	case *parse.CommandNode:
		t.command(n, dot)
	case *parse.ChainNode:
		t.visit(n.Node, dot)
	case *parse.FieldNode:
		if dot {
			t.name(n.Ident[0])
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			t.name(n.Ident[1])
		} else if n.Ident[0] == "$" {
			t.whole = true
		}
	case *parse.DotNode:
		t.whole = t.whole || dot
	}
}

func (t *Template) branch(n *parse.BranchNode, dot, inside bool) {
	t.visit(n.Pipe, dot)
	t.visit(n.List, inside)
	t.visit(n.ElseList, dot)
}

// command visits a function call and its arguments. (index . "a b") names a column.
func (t *Template) command(n *parse.CommandNode, dot bool) {
	args := n.Args
	if len(args) > 2 && args[0].String() == "index" {
		name, text := args[2].(*parse.StringNode)
		if text && (args[1].Type() == parse.NodeDot && dot || args[1].String() == "$") {
			t.name(name.Text)
			args = args[3:]
		}
	}
	for _, a := range args {
		t.visit(a, dot)
	}
}

func (t *Template) name(column string) {
	if !slices.Contains(t.columns, column) {
		t.columns = append(t.columns, column)
	}
}

// index returns an element of a list or object. In contrast to text/template's index, a missing key
// is an error.
func index(v any, keys ...any) (any, error) {
	for _, key := range keys {
		switch at := v.(type) {
		case object:
			name, _ := key.(string)
			var ok bool
			if v, ok = at[name]; !ok {
				return nil, fmt.Errorf("there is no key %q: the keys are %s", name, table.Quoted(slices.Sorted(maps.Keys(at))))
			}
		case list:
			var i int64
			switch k := key.(type) {
			case int:
				i = int64(k)
			case int64:
				i = k
			default:
				return nil, fmt.Errorf("a list is indexed by a number, not by %v", key)
			}
			if i < 0 || i >= int64(len(at)) {
				return nil, fmt.Errorf("there is no element %d: the list has %d elements", i, len(at))
			}
			v = at[i]
		default:
			return nil, fmt.Errorf("%v has no elements", v)
		}
	}
	return v, nil
}

// Templates read a record's values as strings, int64, uint64, bool and the types below. A number
// that has no such type, such as 1e400, is a json.Number, which is printed as it is in the record.
// Lists and objects are printed as JSON. A column that is null is an absent, which is an empty
// string, so that it can be compared with strings. Inside lists and objects, null is a *null.
type (
	absent string // always empty; null in JSON
	number float64
	list   []any
	object map[string]any
	null   struct{} // always used as a nil pointer, which is false in conditions
)

func (absent) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func (*null) String() string { return "" }

func (n number) String() string { return asJSON(float64(n)) }

func (l list) String() string { return asJSON([]any(l)) }

func (o object) String() string { return asJSON(map[string]any(o)) }

func asJSON(v any) string {
	text, err := openai.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func valueOf(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if v == nil {
		return absent(""), nil
	}
	return convert(v), nil
}

func convert(v any) any {
	switch v := v.(type) {
	case nil:
		return (*null)(nil)
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		f, err := v.Float64()
		if err != nil {
			return v
		}
		return number(f)
	case []any:
		l := make(list, len(v))
		for i, e := range v {
			l[i] = convert(e)
		}
		return l
	case map[string]any:
		o := make(object, len(v))
		for k, e := range v {
			o[k] = convert(e)
		}
		return o
	}
	return v
}
