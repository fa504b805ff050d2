package grammar

// Limits bound the work and the memory of a grammar, which a request's sender writes. Zero fields
// have defaults.
type Limits struct {
	Expressions int   // distinct parts of regular expressions of a grammar
	CompileWork int   // steps of compiling a grammar
	Symbols     int   // symbols of a grammar's rules
	Items       int   // parser items of one position of the text
	MaskWork    int   // steps of one mask, of one Accept or of one Forced
	AnswerWork  int   // steps of all calls for one answer; its tokens add to it, see workShare
	RowWork     int   // steps that the rows along an answer cost to make; its tokens add to it, see rowShare
	StateBytes  int64 // bytes of the automaton of one grammar; a full one starts anew. See ownShare
	CacheBytes  int64 // bytes of all compiled grammars of a Compiler
}

// Each token of an answer adds a part of AnswerWork and of RowWork to them, so that long answers
// are not refused for their length: by default 30,000 steps of calls and 10,000 of rows. The rows
// of the answers to the schemas of the test vectors cost at most 108 steps a token on average.
const (
	workShare = 1000
	rowShare  = 50
)

func (l Limits) withDefaults() Limits {
	set(&l.Expressions, 100_000)
	set(&l.CompileWork, 150_000)
	set(&l.Symbols, 200_000)
	set(&l.Items, 5_000)
	set(&l.MaskWork, 2_000_000)
	set(&l.AnswerWork, 30_000_000)
	set(&l.RowWork, 500_000)
	set(&l.StateBytes, 32<<20)
	set(&l.CacheBytes, 256<<20)
	return l
}

func set[T int | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
