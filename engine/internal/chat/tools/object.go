package tools

import "encoding/json"

// callObject reads a call that is a JSON object with "name" and "arguments", in any order. Some
// models write "parameters" instead of "arguments", and some write the arguments as a string with
// JSON. Other keys are ignored.
type callObject struct {
	at    objectState
	key   string
	value scanner
	use   valueUse
	text  string // the value so far, if it is kept
	given bool   // there are arguments
}

type objectState int

const (
	objectStart objectState = iota
	objectKey
	objectColon
	objectValue  // before a value
	objectInside // in a value
	objectNext   // after a value
)

// valueUse says what becomes of a value.
type valueUse int

const (
	ignored   valueUse = iota
	kept               // it is read when it is complete
	arguments          // it is an object, which is passed on
)

type result int

const (
	more result = iota // more text is needed
	done
	bad
)

// maxKey is the maximum number of bytes of a key or a name.
const maxKey = 1 << 10

func (o *callObject) read(p *Parser) result {
	for {
		if p.in == "" || o.at != objectInside && !p.skipSpace() {
			return more
		}
		switch o.at {
		case objectStart:
			if p.take(1) != "{" {
				return bad
			}
			o.at = objectKey
		case objectKey:
			n, ends := (&scanner{}).feed(p.in)
			if !ends && n <= maxKey {
				return more
			}
			if json.Unmarshal([]byte(p.take(n)), &o.key) != nil {
				return bad
			}
			o.at = objectColon
		case objectColon:
			if p.take(1) != ":" {
				return bad
			}
			o.at = objectValue
		case objectValue:
			if !o.begin(p.in[0]) {
				return bad
			}
		case objectInside:
			if !o.inside(p) {
				return bad
			}
		case objectNext:
			switch p.take(1) {
			case ",":
				o.at = objectKey
			case "}":
				return o.end(p)
			default:
				return bad
			}
		}
	}
}

// begin begins a value, given its first character.
func (o *callObject) begin(first byte) bool {
	o.at, o.value, o.text, o.use = objectInside, scanner{}, "", ignored
	switch o.key {
	case "name":
		o.use = kept
	case "arguments", "parameters":
		if o.given {
			return false
		}
		o.given, o.use = true, kept
		if first == '{' {
			o.use = arguments
		}
	}
	return true
}

// inside reads a part of a value. It returns false if the object is not a call.
func (o *callObject) inside(p *Parser) bool {
	n, ends := o.value.feed(p.in)
	part := p.take(n)
	switch o.use {
	case arguments:
		p.argue(part)
	case kept:
		o.text += part
	}
	if !ends {
		return o.key != "name" || len(o.text) <= maxKey
	}
	o.at = objectNext
	return o.use != kept || o.accept(p)
}

// accept uses a value that was kept: a name, or arguments that are not an object.
func (o *callObject) accept(p *Parser) bool {
	var text string
	if json.Unmarshal([]byte(o.text), &text) != nil {
		return false
	}
	switch {
	case o.key == "name":
		return p.begin(text)
	case o.text == "null" || text == "":
		p.argue("{}")
	default:
		p.argue(text)
	}
	return true
}

func (o *callObject) end(p *Parser) result {
	if !p.call.open {
		return bad
	}
	if !o.given {
		p.argue("{}")
	}
	return done
}
