package tools

import (
	"encoding/json"
	"strings"
)

// The texts of calls in Gemma 4's format. gemmaQuote is on both sides of a string.
const (
	gemmaOpen  = "<|tool_call>"
	gemmaClose = "<tool_call|>"
	gemmaQuote = `<|"|>`
)

var gemmaMarks = []string{gemmaOpen, gemmaClose, gemmaQuote}

// native is the state of arguments in a notation like JSON, in which keys have no quotes, and
// strings have gemmaQuote on both sides, and no escapes. Values in JSON are read too.
type native struct {
	open []byte  // the objects and arrays that have not ended
	scan scanner // of a string in JSON
}

// maxOpen is the maximum number of objects and arrays within each other.
const maxOpen = 64

// gemmaStart reads content and calls of the form
//
//	<|tool_call>call:NAME{KEY:<|"|>TEXT<|"|>,KEY:[1,2],KEY:{KEY:true}}<tool_call|>
func gemmaStart(p *Parser) bool {
	_, ok := p.content(gemmaOpen)
	return ok && p.open(gemmaOpen, gemmaName)
}

func gemmaName(p *Parser) bool {
	n := strings.IndexByte(p.in, '{')
	switch {
	case n > maxKey || n < 0 && len(p.in) > maxKey:
		return p.fail(gemmaStart)
	case n < 0:
		return p.wait(gemmaStart)
	case !p.begin(strings.TrimPrefix(strings.TrimSpace(p.take(n)), "call:")):
		return p.fail(gemmaStart)
	}
	return p.opens()
}

// opens begins the object or array with which the input begins.
func (p *Parser) opens() bool {
	mark := p.take(1)
	if len(p.native.open) == maxOpen {
		return p.fail(gemmaStart)
	}
	p.native.open = append(p.native.open, mark[0])
	p.argue(mark)
	p.state = gemmaFirst
	return true
}

// inObject reports whether the innermost value that has not ended is an object.
func (p *Parser) inObject() bool { return p.native.open[len(p.native.open)-1] == '{' }

// gemmaFirst reads the beginning of an object or of an array, which can be empty.
func gemmaFirst(p *Parser) bool {
	switch {
	case !p.skipSpace():
		return p.wait(gemmaStart)
	case p.in[0] == '}' || p.in[0] == ']':
		p.state = gemmaNext
	case p.inObject():
		p.state = gemmaKey
	default:
		p.state = gemmaValue
	}
	return true
}

func gemmaKey(p *Parser) bool {
	if !p.skipSpace() {
		return p.wait(gemmaStart)
	}
	n := strings.IndexByte(p.in, ':')
	var key string
	switch {
	case p.in[0] == '"':
		end, ends := (&scanner{}).feed(p.in)
		if !ends && end <= maxKey {
			return p.wait(gemmaStart)
		}
		if json.Unmarshal([]byte(p.take(end)), &key) != nil || !p.skipSpace() && p.ended {
			return p.fail(gemmaStart)
		}
		p.argueKey(key)
		return true
	case n > maxKey || n < 0 && len(p.in) > maxKey:
		return p.fail(gemmaStart)
	case n < 0:
		return p.wait(gemmaStart)
	}
	key = strings.TrimSpace(p.take(n))
	if quoted, ok := strings.CutPrefix(key, gemmaQuote); ok {
		key = strings.TrimSuffix(quoted, gemmaQuote)
	}
	p.argueKey(key)
	return true
}

func (p *Parser) argueKey(key string) {
	p.argue(quote(key) + ": ")
	p.state = gemmaColon
}

func gemmaColon(p *Parser) bool {
	switch {
	case !p.skipSpace():
		return p.wait(gemmaStart)
	case p.take(1) != ":":
		return p.fail(gemmaStart)
	}
	p.state = gemmaValue
	return true
}

func gemmaValue(p *Parser) bool {
	if !p.skipSpace() {
		return p.wait(gemmaStart)
	}
	switch c := p.in[0]; {
	case strings.HasPrefix(p.in, gemmaQuote):
		p.take(len(gemmaQuote))
		p.argue(`"`)
		p.state = gemmaString
		return true
	case strings.HasPrefix(gemmaQuote, p.in):
		return p.wait(gemmaStart)
	case c == '"':
		p.native.scan = scanner{}
		p.state = gemmaJSON
		return true
	case c == '{' || c == '[':
		return p.opens()
	}
	n := strings.IndexAny(p.in, ",}]")
	if n > maxKey || n < 0 && len(p.in) > maxKey {
		return p.fail(gemmaStart)
	}
	if n < 0 {
		return p.wait(gemmaStart)
	}
	p.argue(scalar(strings.TrimSpace(p.take(n))))
	p.state = gemmaNext
	return true
}

// scalar returns a number, a truth value or null as JSON. Some models write them as Python does.
// Other texts are strings.
func scalar(text string) string {
	switch text {
	case "None":
		return "null"
	case "True":
		return "true"
	case "False":
		return "false"
	}
	if json.Valid([]byte(text)) {
		return text
	}
	return quote(text)
}

func gemmaString(p *Parser) bool {
	n := strings.Index(p.in, gemmaQuote)
	if n < 0 {
		if part := p.take(len(p.in) - overlap(p.in, gemmaQuote)); part != "" {
			p.argue(inner(part))
		}
		return p.wait(gemmaStart)
	}
	p.argue(inner(p.take(n)) + `"`)
	p.take(len(gemmaQuote))
	p.state = gemmaNext
	return true
}

func gemmaJSON(p *Parser) bool {
	n, ends := p.native.scan.feed(p.in)
	p.argue(p.take(n))
	if !ends {
		return p.wait(gemmaStart)
	}
	p.state = gemmaNext
	return true
}

// gemmaNext reads what follows a value.
func gemmaNext(p *Parser) bool {
	if !p.skipSpace() {
		return p.wait(gemmaStart)
	}
	object := p.inObject()
	switch mark := p.take(1); {
	case mark == "," && object:
		p.argue(", ")
		p.state = gemmaKey
	case mark == ",":
		p.argue(", ")
		p.state = gemmaValue
	case mark == "}" && object || mark == "]" && !object:
		p.argue(mark)
		p.native.open = p.native.open[:len(p.native.open)-1]
		if len(p.native.open) == 0 {
			p.state = closing(gemmaClose, gemmaStart)
		}
	default:
		return p.fail(gemmaStart)
	}
	return true
}
