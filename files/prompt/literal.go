package prompt

import (
	"bytes"
	"fmt"
	"text/template/parse"

	"github.com/ingot-run/ingot/files/table"
	"github.com/ingot-run/ingot/openai"
)

// The fields of requests that encode the texts of control tokens like other text.
const (
	literalField       = "no_special_in_content"
	literalRangesField = "literal_ranges"
)

// valueMark begins what an action of a template prints. It does not occur in UTF-8.
const valueMark = "\xff"

// markFunction is the name of markValue in templates.
const markFunction = "_value"

func markValue(v any) string { return valueMark + fmt.Sprint(v) }

// markValues adds markValue to all actions that print, so that limitedBuffer can tell their texts
// from the template's.
func markValues(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, each := range n.Nodes {
			markValues(each)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			mark := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{parse.NewIdentifier(markFunction).SetPos(n.Pos)}}
			n.Pipe.Cmds = append(n.Pipe.Cmds, mark)
		}
	case *parse.IfNode:
		markBranch(&n.BranchNode)
	case *parse.RangeNode:
		markBranch(&n.BranchNode)
	case *parse.WithNode:
		markBranch(&n.BranchNode)
	}
}

func markBranch(n *parse.BranchNode) {
	markValues(n.List)
	markValues(n.ElseList)
}

// limitedBuffer collects the text of a message. It fails when the text is too long for a request.
type limitedBuffer struct {
	bytes.Buffer
	literal [][2]int // see chatMessage
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	text, isValue := bytes.CutPrefix(p, []byte(valueMark))
	if b.Len()+len(text) > openai.MaxBody {
		return 0, fmt.Errorf("the prompt is longer than %d MiB", openai.MaxBody>>20)
	}
	from := b.Len()
	b.Buffer.Write(text)
	if isValue && mayBeControl(text) {
		b.literal = append(b.literal, [2]int{from, b.Len()})
	}
	return len(p), nil
}

// mayBeControl reports whether a text may have the text of a control token of some model: all of
// them have one of these characters.
func mayBeControl(text []byte) bool { return bytes.ContainsAny(text, "<[|") }

// literalChat adds the field to the body of a chat that was made of columns, if it can have an
// effect.
func (m *maker) literalChat(body []table.Field) []table.Field {
	messages := value(body, "messages")
	if m.asGiven || value(body, literalField) != nil || len(messages) == 0 {
		return body
	}
	if !mayBeControl(messages[1:]) && !bytes.Contains(messages, []byte(`\u`)) {
		return body
	}
	return append(body, table.Field{Name: literalField, Value: marshal(true)})
}

// completion returns the body of a completion whose prompt a template has made.
func (m *maker) completion(prompt chatMessage) []table.Field {
	body := []table.Field{{Name: "prompt", Value: marshal(prompt.Content)}}
	if len(prompt.literal) > 0 && !m.asGiven {
		body = append(body, table.Field{Name: literalRangesField, Value: marshal(prompt.literal)})
	}
	return body
}
