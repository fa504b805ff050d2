package generation

import (
	"fmt"
	"slices"
)

// Tool is a function that the model may call.
type Tool struct {
	Name        string // letters, digits, '_', '-' and '.'
	Description string
	// Parameters is the JSON Schema of the arguments, which are an object, as JSON text. Properties
	// keep their order. It is empty for a function without arguments.
	Parameters string
	// Strict makes the arguments of every call valid under Parameters. A schema that cannot be kept
	// in full is then an error.
	Strict bool
}

// ToolMode says whether an answer calls tools.
type ToolMode string

// The modes.
const (
	ToolsAuto     ToolMode = ""         // the model decides
	ToolsRequired ToolMode = "required" // the answer consists of calls
	ToolsNamed    ToolMode = "named"    // the answer is one call of the only tool in ToolChoice.Names
)

// ToolChoice says which tools an answer calls.
type ToolChoice struct {
	Mode   ToolMode
	Names  []string // names of the tools that may be called; empty for all
	Single bool     // the answer has at most one call
}

// ToolCall is a call in an answer.
type ToolCall struct {
	// ID names the call. It follows from the prompt, the seed, and the numbers of choice and call.
	ID   string
	Name string
	// Arguments is a JSON object as text. It can be cut if the choice ends with FinishLength.
	Arguments string
}

// ToolCallDelta is a part of a call in a Piece. The first part of a call has ID and Name. The
// Arguments of all its parts, joined, are those of the call.
type ToolCallDelta struct {
	Index     int // number of the call in the choice, from 0
	ID, Name  string
	Arguments string
}

const maxToolName = 64

// CheckToolName returns an error if a tool cannot have the given name. OpenAI's API allows the same
// names, except those with a dot.
func CheckToolName(name string) error {
	if name == "" {
		return fmt.Errorf("is empty")
	}
	if len(name) > maxToolName {
		return fmt.Errorf("has %d characters, more than %d", len(name), maxToolName)
	}
	for _, c := range name {
		if !isToolNameRune(c) {
			return fmt.Errorf("has the character %q; it may have letters, digits, '_', '-' and '.'", c)
		}
	}
	return nil
}

func isToolNameRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// validateTools returns an error if the tools or the choice among them cannot be used.
func (r *Request) validateTools() error {
	names := make([]string, len(r.Tools))
	for i, t := range r.Tools {
		if err := CheckToolName(t.Name); err != nil {
			return BadRequest("the name of tool %d %w", i+1, err)
		}
		if slices.Contains(names[:i], t.Name) {
			return BadRequest("two tools have the name %q", t.Name)
		}
		names[i] = t.Name
	}
	choice := &r.ToolChoice
	for _, name := range choice.Names {
		if !slices.Contains(names, name) {
			return BadRequest("the tool %q is chosen, but there is no such tool", name)
		}
	}
	switch choice.Mode {
	case ToolsAuto:
	case ToolsRequired, ToolsNamed:
		if len(r.Tools) == 0 {
			return BadRequest("a call is required, but there are no tools")
		}
		if choice.Mode == ToolsNamed && len(choice.Names) != 1 {
			return BadRequest("%d tools are chosen where one must be named", len(choice.Names))
		}
	default:
		return BadRequest("the mode of the choice among tools is %q; it must be empty, %q or %q", choice.Mode, ToolsRequired, ToolsNamed)
	}
	return nil
}
