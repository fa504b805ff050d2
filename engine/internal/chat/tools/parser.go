package tools

import (
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
)

const space = " \t\r\n"

// Parser finds the calls in an answer while it is generated. What it returns does not depend on how
// the answer is cut into parts.
//
// The arguments of a call are returned in parts only if the answer is constrained, so that they are
// certain to be valid, and no stop string can end it. Otherwise, a call is returned when it is
// complete. If it turns out not to be a call of one of the tools with an object of arguments, its
// text is content; but a constrained answer that must consist of calls has no content.
type Parser struct {
	tools   *Set
	trusted bool                   // the answer is constrained
	parts   bool                   // calls are returned in parts
	id      func(index int) string // makes the id of a call
	state   state
	in      string // text that has not been read
	ended   bool   // in has the end of the answer
	out     Output

	said      bool            // there was content
	afterCall bool            // the last thing was a call
	raw       strings.Builder // text of the present call; empty if its first part has been returned
	calls     int             // calls so far
	call      struct {
		open bool // the name is known
		name string
		args strings.Builder // arguments that are not returned yet
		sent bool            // a part has been returned
	}

	object  callObject // state of a call that is a JSON object
	pairs   pairs      // state of a call whose arguments are pairs in tags
	literal literal    // state of a value in Python's syntax
	native  native     // state of a call in Gemma 4's notation
	header  harmonyHeader
}

// state reads a part of an answer: it takes text from Parser.in and may set Parser.state. It
// returns false if it needs more text.
type state func(*Parser) bool

// Output is the content of a part of an answer.
type Output struct {
	Reasoning, Text string
	Calls           []generation.ToolCallDelta
}

// NewParser returns a parser for the answer to a prompt that ends with the given text. trusted
// means that the answer is constrained by the format's grammar. id makes the id of a call from its
// number.
func (f *Format) NewParser(tools *Set, prompt string, trusted bool, id func(index int) string) *Parser {
	p := &Parser{tools: tools, trusted: trusted, parts: trusted && !tools.stops, id: id, state: f.start}
	if f.final != nil && !strings.HasSuffix(prompt, startMark+"assistant") {
		p.state = f.final // the prompt ends within a message
	}
	return p
}

// Next reads the next part of the answer's text. ended must be true for the last part. Text that
// may belong to a call is held back.
func (p *Parser) Next(text string, ended bool) Output {
	p.in += text
	p.ended = ended
	for p.state(p) {
	}
	out := p.out
	p.out = Output{}
	return out
}

// Calls returns the number of calls so far.
func (p *Parser) Calls() int { return p.calls }

// take takes text from the input. Within a call that can still turn out to be content, it notes the
// text.
func (p *Parser) take(n int) string {
	text := p.in[:n]
	p.in = p.in[n:]
	if !p.call.sent {
		p.raw.WriteString(text)
	}
	return text
}

// skipSpace takes white space. It returns false if nothing follows yet.
func (p *Parser) skipSpace() bool {
	p.take(len(p.in) - len(strings.TrimLeft(p.in, space)))
	return p.in != ""
}

// say adds content. White space after a call is left out; a line break separates the content from
// that before the call.
func (p *Parser) say(text string) {
	if p.trusted && p.tools.choice.Mode != generation.ToolsAuto {
		return // a call that was cut
	}
	if p.afterCall {
		if text = strings.TrimLeft(text, space); text != "" && p.said {
			text = "\n" + text
		}
	}
	if text != "" {
		p.out.Text += text
		p.said, p.afterCall = true, false
	}
}

// content says the text before the first of several marks, without the white space before it. It
// returns that mark, which is then at the beginning of the input after white space, and false if
// there is none yet.
func (p *Parser) content(marks ...string) (string, bool) {
	at, mark, ok := find(p.in, marks)
	if !ok && p.ended {
		p.say(p.in)
		p.in = ""
		return "", false
	}
	text := strings.TrimRight(p.in[:at], space)
	p.say(text)
	p.in = p.in[len(text):]
	return mark, ok
}

// find returns the first of several marks in a text, and where it begins. Without one, it returns
// how much of the text cannot be a part of a mark. All marks begin with < or [.
func find(text string, marks []string) (at int, mark string, ok bool) {
	for at < len(text) {
		n := strings.IndexAny(text[at:], "<[")
		if n < 0 {
			break
		}
		at += n
		for _, m := range marks {
			if strings.HasPrefix(text[at:], m) {
				return at, m, true
			}
		}
		at++
	}
	keep := 0
	for _, m := range marks {
		keep = max(keep, overlap(text, m))
	}
	return len(text) - keep, "", false
}

// overlap returns how many bytes at the end of a text can be the beginning of a mark.
func overlap(text, mark string) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}

// open begins a call with a mark, which is in the input after white space.
func (p *Parser) open(mark string, next state) bool {
	p.reset()
	p.skipSpace()
	p.take(len(mark))
	p.state = next
	return true
}

func (p *Parser) reset() {
	p.raw.Reset()
	p.call.args.Reset()
	p.call.open, p.call.name, p.call.sent = false, "", false
	p.object, p.pairs, p.native = callObject{}, pairs{}, native{open: p.native.open[:0]}
}

// begin sets the name of the present call. It returns false if there is no such tool.
func (p *Parser) begin(name string) bool {
	if p.call.open || !p.tools.callable(name) {
		return false
	}
	p.call.open, p.call.name = true, name
	if p.parts {
		p.flush()
	}
	return true
}

// argue adds a part of the arguments, as JSON.
func (p *Parser) argue(part string) {
	p.call.args.WriteString(part)
	if p.parts && p.call.open {
		p.flush()
	}
}

// flush returns the part of the call that is known.
func (p *Parser) flush() {
	args := p.call.args.String()
	p.call.args.Reset()
	if !p.call.sent {
		p.out.Calls = append(p.out.Calls, generation.ToolCallDelta{Index: p.calls, ID: p.id(p.calls), Name: p.call.name, Arguments: args})
		p.call.sent = true
		p.raw.Reset()
		return
	}
	if n := len(p.out.Calls); n > 0 && p.out.Calls[n-1].Index == p.calls {
		p.out.Calls[n-1].Arguments += args
	} else if args != "" {
		p.out.Calls = append(p.out.Calls, generation.ToolCallDelta{Index: p.calls, Arguments: args})
	}
}

// finish ends the present call, and continues with the next state. If the call's arguments are not
// an object, or if it is one call too many, it is content.
func (p *Parser) finish(next state) bool {
	if !p.call.open || !p.call.sent && (!isObject(p.call.args.String()) || p.tools.single() && p.calls > 0) {
		return p.fail(next)
	}
	p.flush()
	p.close()
	p.state = next
	return true
}

func (p *Parser) close() {
	p.calls++
	p.afterCall = true
	p.reset()
}

// fail makes the text of the present call content. If a part of the call has been returned, the
// call stays as it is: this happens only if a constrained answer was cut.
func (p *Parser) fail(next state) bool {
	if p.call.sent {
		p.close()
	} else {
		p.say(p.raw.String())
		p.reset()
	}
	p.state = next
	return p.in != "" || p.ended
}

// wait is what a state of a call returns if it needs more text. If there is none, the call is
// incomplete.
func (p *Parser) wait(next state) bool {
	if !p.ended {
		return false
	}
	p.take(len(p.in))
	p.fail(next)
	return false
}
