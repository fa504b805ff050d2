package grammar

// Limits bound the work and the memory of a grammar, which a request's sender writes. Zero fields
// have defaults.
type Limits struct {
	Expressions int   // distinct parts of regular expressions of a grammar
	CompileWork int   // steps of compiling a grammar
	Symbols     int   // symbols of a grammar's rules
	Items       int   // parser items of one position of the text
	MaskWork    int   // steps of one mask, of one Accept or of one Forced
	ReserveWork int   // steps beyond MaskWork that all calls of one grammar may take together
	StateBytes  int64 // bytes of the automaton of one grammar; a full one starts anew
	CacheBytes  int64 // bytes of all compiled grammars of a Compiler
}

func (l Limits) withDefaults() Limits {
	set(&l.Expressions, 100_000)
	set(&l.CompileWork, 150_000)
	set(&l.Symbols, 200_000)
	set(&l.Items, 5_000)
	set(&l.MaskWork, 2_000_000)
	set(&l.ReserveWork, 20_000_000)
	set(&l.StateBytes, 32<<20)
	set(&l.CacheBytes, 256<<20)
	return l
}

func set[T int | int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
