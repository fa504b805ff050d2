package schedule

// guides applies the constraints of the sequences in a step.
type guides struct {
	// early reports whether masks are computed while the backend runs the step. Otherwise they are
	// computed between the forward pass and the draws, because the backend uses all processors
	// during the pass.
	early bool
	words int // length of a mask
	crew  *crew

	seqs     []*sequence // the sequences of the step whose masks are being computed
	list     []*sequence // working memory
	memory   [][]uint32  // masks of the step
	used     int
	excluded []int32 // working memory of a draw
}

func newGuides(vocab int, parallel bool) *guides {
	return &guides{early: parallel, words: (vocab + 31) / 32, crew: newCrew()}
}

func (g *guides) reset() {
	clear(g.seqs)
	g.seqs, g.used = g.seqs[:0], 0
}

// mask returns the memory of a mask for the present step.
func (g *guides) mask() []uint32 {
	if g.used == len(g.memory) {
		g.memory = append(g.memory, make([]uint32, g.words))
	}
	g.used++
	return g.memory[g.used-1]
}

// start starts to compute the masks of a step. It reports whether there are any; finish waits for
// them.
func (g *guides) start() bool {
	g.crew.begin(g.seqs, func(s *sequence) { s.guide.computeMasks(s.draft.Drafts) })
	if g.early {
		g.crew.start(g.crew.size)
	}
	return len(g.seqs) > 0
}

// finish returns when the masks of the step are computed.
func (g *guides) finish() {
	if !g.early {
		g.crew.start(min(g.crew.size, len(g.seqs)) - 1)
	}
	g.crew.finish()
	for _, s := range g.seqs {
		s.failGuide()
	}
	g.reset()
}

// follow moves the guides of a step's sequences past their new tokens, and appends the tokens that
// must follow.
func (g *guides) follow(seqs []*sequence) {
	g.each(seqs, func(s *sequence) bool { return s.guide.length < len(s.answer()) }, (*sequence).follow)
}

// cut shortens the drafts of sequences to those that the constraints allow.
func (g *guides) cut(seqs []*sequence) {
	g.each(seqs, func(s *sequence) bool { return len(s.draft.Drafts) > 0 }, func(s *sequence) {
		s.draft.Shorten(s.guide.look(s.draft.Drafts))
	})
}

func (g *guides) each(seqs []*sequence, which func(*sequence) bool, do func(*sequence)) {
	g.list = g.list[:0]
	for _, s := range seqs {
		if s.guide != nil && s.request.err == nil && which(s) {
			g.list = append(g.list, s)
		}
	}
	g.crew.run(g.list, do)
	for _, s := range g.list {
		s.failGuide()
	}
	clear(g.list)
}

// failGuide fails the request if its constraint could not be applied.
func (s *sequence) failGuide() {
	if s.guide.err != nil {
		s.request.fail(s.guide.err)
	}
}
