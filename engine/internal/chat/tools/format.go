// Package tools knows how families of models write tool calls: how the calls of an answer are
// found, the grammar of an answer that must have calls, and what a chat template needs to render a
// history of calls.
package tools

import (
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Format is the form in which a family of models writes calls.
type Format struct {
	// Name names the format in descriptions of models.
	Name string

	source  func(template string) bool // reports whether a chat template is of this format
	start   state                      // reads an answer from its beginning
	grammar func(g *writer)            // writes the rules of an answer

	// marks are the texts around calls. In some vocabularies they are control tokens, whose names
	// must then be a part of the answer's text.
	marks []string

	// written returns the messages that the template needs for a message and its calls; nil if the
	// template renders calls. It may change the message.
	written    func(m *ordered.Object, calls []ordered.Value) []ordered.Value
	resultRole string // the template's role of results; empty for "tool"
	toolsText  bool   // the template reads the tools from the system message, as a text

	onePerMessage bool // the template renders only one call of a message
	shortIDs      bool // the template demands ids of 9 letters and digits
	harmony       bool // the format also marks reasoning; gpt-oss's template reads it from "thinking"
	// final reads the content of a message, in formats whose answers consist of messages.
	final state
}

// formats is the table of formats. The first row that knows a template counts.
var formats = []*Format{
	{
		Name: "gpt-oss (harmony)", source: has("<|channel|>", "<|message|>"),
		start: harmonyStart, grammar: harmonyGrammar,
		marks: []string{channelMark, messageMark, startMark, endMark, callMark, returnMark, constrainMark}, onePerMessage: true, harmony: true,
		final: harmonyFinal,
	},
	{
		Name: "Muse Glimmer (ATEM)", source: has("<atem:function_calls>", "<|message|>"),
		start: museStart, grammar: museGrammar, marks: []string{messageMark, startMark, museNext, museEnd}, harmony: true, final: museContent,
	},
	{
		Name: "GLM-4.5", source: has("<arg_key>", "<tool_call>{function-name}\n"),
		start: glmStart, grammar: glmGrammar("\n"), marks: glmMarks,
	},
	{
		Name: "GLM-4.7", source: has("<arg_key>", "<tool_call>"),
		start: glmStart, grammar: glmGrammar(""), marks: glmMarks,
	},
	{
		Name: "Qwen3-Coder", source: has("<tool_call>", "<function=", "<parameter="),
		start: coderStart, grammar: coderGrammar, marks: []string{openMark, closeMark},
	},
	{
		Name: "LFM2", source: has(pythonOpen, "tool_calls"),
		start: pythonStart, grammar: pythonGrammar, marks: []string{pythonOpen, pythonClose},
	},
	{
		Name: "LFM2, calls as text", source: has(toolList),
		start: pythonStart, grammar: pythonGrammar, marks: []string{pythonOpen, pythonClose}, written: pythonWritten,
	},
	{
		Name: "Gemma 4", source: has(gemmaOpen+"call:", gemmaQuote),
		start: gemmaStart, grammar: gemmaGrammar, marks: gemmaMarks,
	},
	{
		Name: "Granite 3", source: has("available_tools", graniteMark), start: graniteStart, grammar: listGrammar(graniteMark, "", openMark),
		marks: []string{graniteMark, openMark}, written: writtenList(graniteMark, ""), resultRole: "tool_response",
	},
	{
		Name: "Phi-4-mini", source: has("<|tool|>", "<|/tool|>", "message['tools']"), start: phiStart, grammar: listGrammar(phiOpen, phiClose),
		marks: []string{phiOpen, phiClose}, written: writtenList(phiOpen, phiClose), resultRole: "tool_response", toolsText: true,
	},
	{
		Name: "GLM-4-0414", source: has("# 可用工具", `message.get("metadata"`), start: glm4Start, grammar: glm4Grammar,
		written: glm4Written, resultRole: "observation", onePerMessage: true,
	},
	Hermes,
	{
		Name: "Mistral", source: has("[TOOL_CALLS]", "[ARGS]"),
		start: mistralStart, grammar: mistralGrammar, marks: mistralMarks, shortIDs: true,
	},
	{
		Name: "Mistral, as a list", source: has("[TOOL_CALLS]"),
		start: mistralStart, grammar: listGrammar(mistralMark, ""), marks: mistralMarks, shortIDs: true,
	},
	{
		Name: "Llama 3", source: has(`"parameters": `, "tool_call", "ipython"),
		start: llamaStart, grammar: llamaGrammar, marks: []string{pythonMark}, onePerMessage: true,
	},
}

// Hermes is the format of Hermes, Qwen2.5 and Qwen3, and of Ingot's own rendering for models whose
// template has no tools.
var Hermes = &Format{
	Name: "Hermes", source: has("<tool_call>", `"arguments"`),
	start: hermesStart, grammar: hermesGrammar, marks: []string{openMark, closeMark},
}

func has(parts ...string) func(string) bool {
	return func(template string) bool {
		for _, p := range parts {
			if !strings.Contains(template, p) {
				return false
			}
		}
		return true
	}
}

// toolList is the mark before the tools in templates of LFM2 that render no calls.
const toolList = "<|tool_list_start|>"

// Find returns the format of a chat template, or nil if the template does not render tools and
// calls, or renders them for a format that is not known.
func Find(template string) *Format {
	if !strings.Contains(template, "tools") && !strings.Contains(template, toolList) {
		return nil
	}
	for _, f := range formats {
		if f.source(unescape.Replace(template)) && (f.written != nil || strings.Contains(template, "tool_calls")) {
			return f
		}
	}
	return nil
}

// unescape replaces the escapes of strings in a template, so that a part is found both in a string
// and in the text outside.
var unescape = strings.NewReplacer(`\n`, "\n", `\"`, `"`)

// Marks returns the texts that may be control tokens and must be a part of the answer's text.
func (f *Format) Marks() []string { return f.marks }

// Reasons reports whether the format also marks reasoning, so that answers without tools have to be
// read too.
func (f *Format) Reasons() bool { return f != nil && f.harmony }
