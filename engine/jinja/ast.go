package jinja

// A template is a tree of statements and expressions. Parsing makes it, binding gives every name its place (bind.go), and
// then it never changes.

type stmt interface {
	exec(r *render, f *frame) (flow, error)
}

type expr interface {
	eval(r *render, f *frame) (Value, error)
}

// at is the offset of a node in the source.
type at int

// Statements. The nested scopes are those of Jinja: loops, macros, blocks that capture text and with open one, if does
// not.
type (
	textStmt struct{ text string }

	printStmt struct {
		at
		value expr
	}

	doStmt struct {
		at
		value expr
	}

	ifStmt struct {
		at
		test  expr
		body  []stmt
		elifs []*ifStmt
		other []stmt
	}

	forStmt struct {
		at
		target    expr
		seq       expr
		test      expr // nil without "if"
		recursive bool
		body      []stmt
		other     []stmt

		extended   bool // the body reads the variable loop
		loop       ref  // of the variable loop
		testTarget expr // target, for the test
		scope      *scope
		testScope  *scope
		elseScope  *scope
	}

	setStmt struct {
		at
		target expr
		value  expr
	}

	// setBlockStmt is {% set target | filter %}body{% endset %}.
	setBlockStmt struct {
		at
		target expr
		filter *filterExpr // nil without
		body   []stmt
		scope  *scope
	}

	filterStmt struct {
		at
		filter *filterExpr
		body   []stmt
		scope  *scope
	}

	withStmt struct {
		at
		targets []expr
		values  []expr
		body    []stmt
		scope   *scope
	}

	macroStmt struct {
		at
		target *nameExpr
		def    *macroDef
	}

	// callStmt is {% call(params) call %}body{% endcall %}. The body is a macro named caller. {% generation %} is one whose
	// call does nothing but write it.
	callStmt struct {
		at
		call *callExpr // nil for generation
		def  *macroDef
	}

	loopControl struct {
		at
		flow flow
	}
)

// macroDef is what a macro and the body of a call block have in common.
type macroDef struct {
	name     string // empty for a call block
	params   []*nameExpr
	defaults []expr // of the last parameters
	body     []stmt

	scope *scope
	// Names that the body reads without declaring them: the macro that a call block passes, and the arguments that no
	// parameter takes. Nil if the body does not.
	caller, varargs, kwargs *nameExpr
}

// Expressions.
type (
	constExpr struct{ value Value }

	// nameExpr reads, sets or declares a variable.
	nameExpr struct {
		at
		name string
		use  nameUse
		ref  ref
	}

	// attrTarget is ns.name on the left of a set.
	attrTarget struct {
		at
		object *nameExpr
		name   string
	}

	listExpr  struct{ items []expr }
	tupleExpr struct{ items []expr }

	dictExpr struct {
		at
		keys, values []expr
	}

	// condExpr is value if test else other.
	condExpr struct {
		test, value, other expr // other is nil without else
	}

	logicExpr struct {
		and         bool
		left, right expr
	}

	notExpr struct{ value expr }

	unaryExpr struct {
		at
		op    string
		value expr
	}

	binaryExpr struct {
		at
		op          string
		left, right expr
	}

	concatExpr struct {
		at
		items []expr
	}

	// compareExpr is a chain: a < b <= c.
	compareExpr struct {
		at
		first expr
		ops   []string
		rest  []expr
	}

	attrExpr struct {
		at
		object expr
		name   string
		plain  bool // isPlainKey of the name
	}

	itemExpr struct {
		at
		object, key expr
	}

	sliceExpr struct {
		at
		object            expr
		start, stop, step expr // nil where left out
	}

	callExpr struct {
		at
		fn   expr
		args argExprs
	}

	filterExpr struct {
		at
		value expr // nil in a block: the captured text
		name  string
		args  argExprs
		fn    *builtin // nil if there is no such filter
	}

	testExpr struct {
		at
		value expr
		name  string
		args  argExprs
		fn    *builtin
	}
)

type nameUse uint8

const (
	useLoad nameUse = iota
	useStore
	useParam
)

// argExprs are the arguments of a call: f(pos, *star, name=named, **starNamed).
type argExprs struct {
	pos       []expr
	names     []string
	named     []expr
	star      expr
	starNamed expr
}

// children calls visit for the direct children of a node in the order in which Jinja walks them.
func children(n any, visit func(any)) {
	one := func(e expr) {
		if e != nil {
			visit(e)
		}
	}
	many := func(es []expr) {
		for _, e := range es {
			visit(e)
		}
	}
	block := func(body []stmt) {
		for _, s := range body {
			visit(s)
		}
	}
	args := func(a argExprs) {
		many(a.pos)
		many(a.named)
		one(a.star)
		one(a.starNamed)
	}
	macro := func(d *macroDef) {
		for _, p := range d.params {
			visit(p)
		}
		many(d.defaults)
		block(d.body)
	}
	switch n := n.(type) {
	case *printStmt:
		visit(n.value)
	case *doStmt:
		visit(n.value)
	case *ifStmt:
		visit(n.test)
		block(n.body)
		for _, e := range n.elifs {
			visit(e)
		}
		block(n.other)
	case *forStmt:
		visit(n.target)
		visit(n.seq)
		block(n.body)
		block(n.other)
		one(n.test)
	case *setStmt:
		visit(n.target)
		visit(n.value)
	case *setBlockStmt:
		visit(n.target)
		if n.filter != nil {
			visit(n.filter)
		}
		block(n.body)
	case *filterStmt:
		block(n.body)
		visit(n.filter)
	case *withStmt:
		many(n.targets)
		many(n.values)
		block(n.body)
	case *macroStmt:
		macro(n.def)
	case *callStmt:
		if n.call != nil {
			visit(n.call)
		}
		macro(n.def)
	case *attrTarget:
		visit(n.object)
	case *listExpr:
		many(n.items)
	case *tupleExpr:
		many(n.items)
	case *dictExpr:
		for i := range n.keys {
			visit(n.keys[i])
			visit(n.values[i])
		}
	case *condExpr:
		visit(n.test)
		visit(n.value)
		one(n.other)
	case *logicExpr:
		visit(n.left)
		visit(n.right)
	case *notExpr:
		visit(n.value)
	case *unaryExpr:
		visit(n.value)
	case *binaryExpr:
		visit(n.left)
		visit(n.right)
	case *concatExpr:
		many(n.items)
	case *compareExpr:
		visit(n.first)
		many(n.rest)
	case *attrExpr:
		visit(n.object)
	case *itemExpr:
		visit(n.object)
		visit(n.key)
	case *sliceExpr:
		visit(n.object)
		one(n.start)
		one(n.stop)
		one(n.step)
	case *callExpr:
		visit(n.fn)
		args(n.args)
	case *filterExpr:
		one(n.value)
		args(n.args)
	case *testExpr:
		visit(n.value)
		args(n.args)
	}
}
