package schedule

// writer appends the text of generated tokens to the answers and passes it to the streams. If the
// backend can have steps in flight, the writer works on a goroutine of its own while the loop
// prepares the next step and waits for it: that step needs the tokens, but not their text.
// Otherwise it works on the loop's goroutine, because the backend uses all processors during a
// step.
type writer struct {
	parallel bool
	seqs     []*sequence // the sequences of the last step
	write    func()      // writeAll as a function value, stored so that a step does not allocate it
	work     func()      // calls write and reports to done; stored as well
	busy     bool
	done     chan error // receives an error if write panicked, otherwise nil
}

func newWriter(parallel bool) *writer {
	w := &writer{parallel: parallel, done: make(chan error, 1)}
	w.write = w.writeAll
	w.work = func() { w.done <- recovered(w.write) }
	return w
}

// begin waits until earlier text is written, and notes the sequences whose tokens the caller is
// about to change.
func (w *writer) begin(seqs []*sequence) {
	w.wait()
	w.seqs = w.seqs[:0]
	for _, s := range seqs {
		if !s.request.promptOnly {
			w.seqs = append(w.seqs, s)
		}
	}
}

// start writes the text of the noted sequences. Until begin or wait, the caller must not change
// what sequence.write and stream.add read.
func (w *writer) start() {
	if !w.parallel {
		w.write()
		return
	}
	w.busy = true
	go w.work()
}

// wait waits until the text is written. If the writer panicked, so does wait.
func (w *writer) wait() {
	if w.busy {
		w.busy = false
		if err := <-w.done; err != nil {
			panic(err)
		}
	}
}

func (w *writer) writeAll() {
	for _, s := range w.seqs {
		s.write()
		s.request.stream.add(s)
	}
	clear(w.seqs)
}
