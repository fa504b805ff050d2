package jinja

// A template is a tree of statements and expressions. The parser makes the tree, and bind sets the
// variable to which each name refers. After that, the tree never changes.

type stmt interface {
	exec(r *render, f *frame) flow
}

type expr interface {
	eval(r *render, f *frame) Value
}

// at is the position of a node: an offset in bytes in the source.
type at int

// Statements. Loops, macros and blocks that capture text open a scope. An if does not.
type (
	textStmt struct{ text string }

	printStmt struct {
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
		target expr
		seq    expr
		test   expr // nil without "if"
		body   []stmt
		other  []stmt

		extended   bool // the body reads the variable loop
		loop       ref
		testTarget expr // copy of target with the variables that the test uses
		scope      *scope
		testScope  *scope
		elseScope  *scope
	}

	setStmt struct {
		at
		target expr
		value  expr
	}

	// captureStmt is {% set target | filter %}body{% endset %}, which assigns the text, or {%
	// filter filter %}body{% endfilter %}, which writes it.
	captureStmt struct {
		at
		target expr        // nil if the text is written
		filter *filterExpr // nil if there is no filter
		body   []stmt
		scope  *scope
	}

	macroStmt struct {
		at
		target *nameExpr
		def    *macroDef
	}

	// generationStmt is {% generation %}body{% endgeneration %}, which marks text for training.
	// Rendering it only writes the text of its body, which has its own scope.
	generationStmt struct {
		at
		def *macroDef
	}

	loopControl struct {
		at
		flow flow
	}
)

// macroDef is the definition of a macro, or the body of a generation statement, which is run like a
// macro without parameters.
type macroDef struct {
	name     string
	params   []*nameExpr
	defaults []expr // defaults of the last parameters
	body     []stmt
	scope    *scope
}

// Expressions.
type (
	constExpr struct{ value Value }

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

	listExpr  struct{ operands }
	tupleExpr struct{ operands }

	// dictExpr has keys and values by turns.
	dictExpr struct {
		at
		operands
	}

	// condExpr is the expression "value if test else other".
	condExpr struct {
		test, value, other expr // other is nil without else
	}

	logicExpr struct {
		and bool
		operands
	}

	notExpr struct{ operands }

	signExpr struct {
		at
		op string
		operands
	}

	binaryExpr struct {
		at
		op          string
		left, right expr
	}

	concatExpr struct {
		at
		operands
	}

	// compareExpr is a chain: a < b <= c. It has one more operand than operators.
	compareExpr struct {
		at
		ops []string
		operands
	}

	attrExpr struct {
		at
		object expr
		name   string
		plain  bool // the result of isPlainKey for the name
	}

	itemExpr struct {
		at
		object, key expr
	}

	// sliceExpr has an object, and the start, stop and step, which are nil if they are left out.
	sliceExpr struct {
		at
		operands
	}

	callExpr struct {
		at
		fn   expr
		args argExprs
	}

	// filterExpr is value|name(args) or value is name(args).
	filterExpr struct {
		at
		kind  string // "filter" or "test"
		value expr   // nil for a block, whose captured text is filtered
		name  string
		args  argExprs
		fn    *builtin // nil if there is no such filter or test
	}
)

// operands are the operands of an expression. Some may be nil.
type operands struct{ items []expr }

func (o operands) all() []expr { return o.items }

type nameUse uint8

const (
	useLoad nameUse = iota
	useStore
	useParam
)

// argExprs has the arguments of a call: f(pos, *star, name=named, **starNamed).
type argExprs struct {
	pos       []expr
	names     []string
	named     []expr
	star      expr
	starNamed expr
}

// children calls visit for the direct children of a node, in the order in which Jinja visits them.
func children(n any, visit func(any)) {
	switch n := n.(type) {
	case interface{ all() []expr }:
		each(n.all(), visit)
	case *printStmt:
		visit(n.value)
	case *ifStmt:
		visit(n.test)
		each(n.body, visit)
		each(n.elifs, visit)
		each(n.other, visit)
	case *forStmt:
		visit(n.target)
		visit(n.seq)
		each(n.body, visit)
		each(n.other, visit)
		one(n.test, visit)
	case *setStmt:
		visit(n.target)
		visit(n.value)
	case *captureStmt:
		one(n.target, visit)
		if n.filter != nil {
			visit(n.filter)
		}
		each(n.body, visit)
	case *macroStmt:
		each(n.def.params, visit)
		each(n.def.defaults, visit)
		each(n.def.body, visit)
	case *generationStmt:
		each(n.def.body, visit)
	case *attrTarget:
		visit(n.object)
	case *condExpr:
		visit(n.test)
		visit(n.value)
		one(n.other, visit)
	case *binaryExpr:
		visit(n.left)
		visit(n.right)
	case *attrExpr:
		visit(n.object)
	case *itemExpr:
		visit(n.object)
		visit(n.key)
	case *callExpr:
		visit(n.fn)
		n.args.children(visit)
	case *filterExpr:
		one(n.value, visit)
		n.args.children(visit)
	}
}

func (a *argExprs) children(visit func(any)) {
	each(a.pos, visit)
	each(a.named, visit)
	one(a.star, visit)
	one(a.starNamed, visit)
}

func one(e expr, visit func(any)) {
	if e != nil {
		visit(e)
	}
}

func each[T any](nodes []T, visit func(any)) {
	for _, n := range nodes {
		if any(n) != nil {
			visit(n)
		}
	}
}
