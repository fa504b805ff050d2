package schema

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/engine/grammar/source"
	"github.com/ingot-run/ingot/internal/ordered"
)

// node is a schema within the document: an object or a boolean.
type node struct {
	parent   *node
	token    string // JSON pointer from the parent, "/properties/a"
	value    any    // bool or *ordered.Object
	resource *resource
}

// resource is a schema with an own URI, in which pointers begin.
type resource struct {
	uri     *url.URL
	root    *node
	anchors map[string]*node
	old     bool // before draft 2019-09: $ref hides its siblings
}

// path returns the JSON pointer of a schema, or of one of its keywords.
func (n *node) path(keyword ...string) string {
	var parts []string
	for at := n; at != nil; at = at.parent {
		parts = append(parts, at.token)
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString(parts[i])
	}
	for _, k := range keyword {
		b.WriteString("/" + escapePointer(k))
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

func (n *node) fail(keyword, format string, args ...any) error {
	return &source.Error{Path: n.path(keyword), Message: fmt.Sprintf(format, args...)}
}

func (n *node) object() *ordered.Object {
	o, _ := n.value.(*ordered.Object)
	return o
}

func (n *node) get(keyword string) (any, bool) {
	o := n.object()
	if o == nil {
		return nil, false
	}
	return o.Get(keyword)
}

// isTrue reports whether a keyword is there and true.
func isTrue(value any, ok bool) bool {
	b, isBool := value.(bool)
	return ok && isBool && b
}

// document is a schema with all that its references can reach.
type document struct {
	root      *node
	nodes     map[*ordered.Object]*node
	resources map[string]*resource
	dynamic   map[string][]*node // schemas by $dynamicAnchor
	recursive int                // how many have $recursiveAnchor
}

func newDocument(value any) (*document, error) {
	d := &document{
		nodes:     map[*ordered.Object]*node{},
		resources: map[string]*resource{},
		dynamic:   map[string][]*node{},
	}
	d.root = &node{value: value}
	uri, _ := url.Parse("")
	d.root.resource = &resource{uri: uri, root: d.root, anchors: map[string]*node{}, old: isOld(value)}
	d.resources[""] = d.root.resource
	if err := d.scan(d.root); err != nil {
		return nil, err
	}
	return d, nil
}

func isOld(value any) bool {
	o, ok := value.(*ordered.Object)
	if !ok {
		return false
	}
	v, _ := o.Get("$schema")
	s, _ := v.(string)
	for _, draft := range []string{"draft-03", "draft-04", "draft-06", "draft-07"} {
		if strings.Contains(s, draft) {
			return true
		}
	}
	return false
}

// scan finds the identifiers of a schema and of all schemas within.
func (d *document) scan(n *node) error {
	o := n.object()
	if o == nil {
		if _, ok := n.value.(bool); !ok {
			return &source.Error{Path: n.path(), Message: "a schema must be an object, true or false"}
		}
		return nil
	}
	d.nodes[o] = n
	if err := d.identify(n, o); err != nil {
		return err
	}
	for key, value := range o.All() {
		switch subschemas[key] {
		case oneSchema:
			if err := d.scanOne(n, value, key); err != nil {
				return err
			}
		case listOfSchemas:
			list, ok := value.([]any)
			if !ok {
				return n.fail(key, "must be an array of schemas")
			}
			for i, v := range list {
				if err := d.scanOne(n, v, key, strconv.Itoa(i)); err != nil {
					return err
				}
			}
		case oneOrList:
			list, ok := value.([]any)
			if !ok {
				if err := d.scanOne(n, value, key); err != nil {
					return err
				}
			}
			for i, v := range list {
				if err := d.scanOne(n, v, key, strconv.Itoa(i)); err != nil {
					return err
				}
			}
		case mapOfSchemas:
			if err := d.scanMap(n, key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *document) scanMap(n *node, key string, value any) error {
	m, ok := value.(*ordered.Object)
	if !ok {
		return n.fail(key, "must be an object whose values are schemas")
	}
	for name, v := range m.All() {
		if _, list := v.([]any); list && key == "dependencies" {
			continue
		}
		if err := d.scanOne(n, v, key, name); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) scanOne(parent *node, value any, tokens ...string) error {
	return d.scan(d.child(parent, value, tokens...))
}

// child returns the node of a schema within parent.
func (d *document) child(parent *node, value any, tokens ...string) *node {
	if o, ok := value.(*ordered.Object); ok && d.nodes[o] != nil {
		return d.nodes[o]
	}
	var token strings.Builder
	for _, t := range tokens {
		token.WriteString("/" + escapePointer(t))
	}
	n := &node{parent: parent, token: token.String(), value: value, resource: parent.resource}
	if o, ok := value.(*ordered.Object); ok {
		d.nodes[o] = n
	}
	return n
}

func (d *document) identify(n *node, o *ordered.Object) error {
	_, hidden := o.Get("$ref")
	hidden = hidden && n.resource.old
	for _, key := range []string{"$id", "id"} {
		v, ok := o.Get(key)
		id, isText := v.(string)
		if !ok || !isText || hidden || key == "id" && (!n.resource.old || n.parent != nil && !strings.ContainsAny(id, "#:/")) {
			continue
		}
		if anchor, ok := strings.CutPrefix(id, "#"); ok {
			n.resource.anchors[anchor] = n
			continue
		}
		ref, err := url.Parse(id)
		if err != nil {
			return n.fail(key, "%q is not a URI", id)
		}
		uri := n.resource.uri.ResolveReference(ref)
		uri.Fragment = ""
		if n.parent != nil {
			n.resource = &resource{root: n, anchors: map[string]*node{}, old: n.resource.old}
		}
		n.resource.uri = uri
		d.resources[uri.String()] = n.resource
	}
	if v, ok := o.Get("$anchor"); ok {
		if name, ok := v.(string); ok {
			n.resource.anchors[name] = n
		}
	}
	if v, ok := o.Get("$dynamicAnchor"); ok {
		if name, ok := v.(string); ok {
			n.resource.anchors[name] = n
			d.dynamic[name] = append(d.dynamic[name], n)
		}
	}
	if isTrue(o.Get("$recursiveAnchor")) {
		d.recursive++
	}
	return nil
}

// resolve returns the schema that a reference of n means.
func (d *document) resolve(n *node, keyword, ref string) (*node, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return nil, n.fail(keyword, "%q is not a URI", ref)
	}
	target := n.resource.uri.ResolveReference(u)
	fragment := u.Fragment
	target.Fragment = ""
	target.RawFragment = ""
	r := d.resources[target.String()]
	if u.Scheme == "" && u.Host == "" && u.Path == "" && u.RawQuery == "" {
		r = n.resource
	}
	if r == nil {
		return nil, n.fail(keyword, "%q is not in this schema; other documents are not loaded, so put it into $defs", ref)
	}
	if fragment != "" && !strings.HasPrefix(fragment, "/") {
		if at := r.anchors[fragment]; at != nil {
			return at, nil
		}
		return nil, n.fail(keyword, "no schema has the anchor %q", fragment)
	}
	return d.pointer(n, keyword, r.root, fragment)
}

func (d *document) pointer(from *node, keyword string, at *node, pointer string) (*node, error) {
	value := at.value
	var tokens []string
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		tokens = append(tokens, token)
		ok := false
		switch v := value.(type) {
		case *ordered.Object:
			value, ok = v.Get(token)
		case []any:
			i, err := strconv.Atoi(token)
			if ok = err == nil && i >= 0 && i < len(v); ok {
				value = v[i]
			}
		}
		if !ok {
			return nil, from.fail(keyword, "nothing is at %q", "#"+pointer)
		}
		if o, isObject := value.(*ordered.Object); isObject && d.nodes[o] != nil {
			at, tokens = d.nodes[o], nil
		}
	}
	switch value.(type) {
	case *ordered.Object, bool:
	default:
		return nil, from.fail(keyword, "what is at %q is not a schema", "#"+pointer)
	}
	if len(tokens) == 0 {
		return at, nil
	}
	n := d.child(at, value, tokens...)
	if err := d.scan(n); err != nil { // it stands where no schema is expected
		return nil, err
	}
	return n, nil
}
