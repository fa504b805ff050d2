package metal

import "github.com/ingot-run/ingot/engine/compute"

// stateLists are the lists of a step's rows that the kernels of recurrent states read. They are the
// same for all layers, so they are made once per step.
type stateLists struct {
	made      bool
	convolved stateList // all rows, up to convolveRows of a sequence per entry
	generated stateList // the rows of a sequence that are computed one after another
	chunks    Binding   // [rows of all prompts in chunks] of ChunkTile in kernels/recurrence_chunks.metal
	prompts   []chunkRun
	chunked   int       // number of chunks
	parts     []partRun // the results of runsOf
	// rereads reports whether an entry of generated reads the log of a slot to which it writes.
	rereads bool
	// single reports whether each entry of generated is one row, without drafts now or before.
	single bool
}

// stateList is a list of StateSlot in kernels/states.h.
type stateList struct {
	Binding
	count int
}

// partRun is a list of the chunks [from, to) of a step.
type partRun struct {
	stateList
	from, to int
}

// chunkRun is the chunks of a sequence.
type chunkRun struct {
	slot  stateSlot
	first int // index of its first chunk among those of the step
}

// stateSlot is StateSlot in kernels/states.h.
type stateSlot struct {
	row, rows, drafts, from, to, accepted, before int
}

// stateSlotInts is the size of StateSlot, and chunkInts that of ChunkTile.
const stateSlotInts, chunkInts = 7, 2

func (s *stateSlot) write(ints []int32) {
	for i, v := range [stateSlotInts]int{s.row, s.rows, s.drafts, s.from, s.to, s.accepted, s.before} {
		ints[i] = int32(v)
	}
}

func chunksOf(rows int) int { return (rows + compute.ChunkRows - 1) / compute.ChunkRows }

// listStates makes the lists of the step's rows, if they are not made yet.
func (s *step) listStates() *stateLists {
	l := &s.states
	if l.made {
		return l
	}
	*l = stateLists{made: true, single: true, prompts: l.prompts[:0], parts: l.parts[:0]}
	for i := range s.batch.Seqs {
		seq := &s.batch.Seqs[i]
		l.convolved.count += (seq.Rows + convolveRows - 1) / convolveRows
		l.chunked += chunksOf(seq.State.Prompt)
		if seq.State.Prompt < seq.Rows {
			l.generated.count++
		}
	}
	var convolved, generated, chunks []int32
	l.convolved.Binding, convolved = s.take(stateSlotInts * l.convolved.count)
	l.generated.Binding, generated = s.take(stateSlotInts * l.generated.count)
	l.chunks, chunks = s.take(chunkInts * l.chunked)
	row, chunk := 0, 0
	for i := range s.batch.Seqs {
		seq := &s.batch.Seqs[i]
		state := &seq.State
		slot := stateSlot{from: state.From, to: state.Slot, accepted: state.Accepted}
		for at := 0; at < seq.Rows; at += convolveRows {
			part := slot
			part.row, part.rows, part.drafts, part.before = row+at, seq.Rows-at, state.Drafts, at
			part.write(convolved)
			convolved = convolved[stateSlotInts:]
		}
		if state.Prompt > 0 {
			prompt := slot
			prompt.row, prompt.rows = row, state.Prompt
			l.prompts = append(l.prompts, chunkRun{prompt, chunk})
			for at := 0; at < state.Prompt; at += compute.ChunkRows {
				chunks[chunkInts*chunk], chunks[chunkInts*chunk+1] = int32(row+at), int32(min(compute.ChunkRows, state.Prompt-at))
				chunk++
			}
			slot.from, slot.accepted = state.Slot, 0
		}
		if state.Prompt < seq.Rows {
			slot.row, slot.rows, slot.drafts = row+state.Prompt, seq.Rows-state.Prompt, state.Drafts
			slot.write(generated)
			generated = generated[stateSlotInts:]
			l.rereads = l.rereads || slot.from == slot.to && slot.accepted > 0 && slot.drafts > 0
			l.single = l.single && slot.rows == 1 && slot.drafts == 0 && slot.accepted == 0
		}
		row += seq.Rows
	}
	return l
}

// runsOf lists the prompts' chunks [from, to) of the step. The chunks of a list entry begin at the
// entry's field before, counted from the chunk from on. The first entry of a sequence continues the
// state that the step's batch names, and later entries continue the state that the one before has
// left.
func (s *step) runsOf(from, to int) stateList {
	for _, part := range s.states.parts {
		if part.from == from && part.to == to {
			return part.stateList
		}
	}
	count := 0
	for i := range s.states.prompts {
		if run := &s.states.prompts[i]; run.first < to && run.first+chunksOf(run.slot.rows) > from {
			count++
		}
	}
	list, ints := s.take(stateSlotInts * count)
	for i := range s.states.prompts {
		run := &s.states.prompts[i]
		begin, end := max(run.first, from), min(run.first+chunksOf(run.slot.rows), to)
		if begin >= end {
			continue
		}
		part, done := run.slot, compute.ChunkRows*(begin-run.first)
		part.row += done
		part.rows = min(part.rows-done, compute.ChunkRows*(end-begin))
		part.before = begin - from
		if done > 0 {
			part.from, part.accepted = part.to, 0
		}
		part.write(ints)
		ints = ints[stateSlotInts:]
	}
	s.states.parts = append(s.states.parts, partRun{stateList{list, count}, from, to})
	return stateList{list, count}
}
