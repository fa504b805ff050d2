package jinja

import "errors"

// target parses what a set, for or with assigns to: an item, or a tuple of them. The word end, if not empty, ends it.
func (p *parser) target(item func() (expr, error), end string) (expr, error) {
	start := p.cur().offset
	items, isTuple, err := p.items(item, end)
	if err != nil {
		return nil, err
	}
	var t expr
	switch {
	case isTuple:
		t = &tupleExpr{items}
	case len(items) == 0:
		return nil, p.fail("a name to assign to")
	default:
		t = items[0]
	}
	if err := setUse(t, useStore); err != nil {
		return nil, errAt(start, err)
	}
	return t, nil
}

// setItem parses what set, but not for, may assign to: a name, or an attribute of a namespace.
func (p *parser) setItem() (expr, error) {
	t, dot := p.cur(), p.ahead()
	if t.kind != tokName || reserved(t.text) || dot.kind != tokOp || dot.text != "." {
		return p.primary()
	}
	p.pos += 2
	attr, err := p.expectName()
	return &attrTarget{at(t.offset), &nameExpr{at: at(t.offset), name: t.text}, attr.text}, err
}

// reserved says which names are values and cannot be assigned to.
func reserved(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

// setUse says what the names of a target are for, and fails for an expression that is no target.
func setUse(e expr, use nameUse) error {
	switch e := e.(type) {
	case *nameExpr:
		e.use = use
		return nil
	case *attrTarget:
		return nil
	case *tupleExpr:
		for _, item := range e.items {
			if err := setUse(item, use); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("this cannot be assigned to")
}
