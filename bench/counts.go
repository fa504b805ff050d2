package bench

// Counts are what a GPU was asked for.
type Counts struct {
	Dispatches, CommandBuffers, Waits int
}

// PerStep is what a step asked of the GPU, in the mean over all steps of the timed runs: those of prompts as well, and with
// the passes of a drafting layer or model beside them.
type PerStep struct {
	Dispatches     float64 `json:"dispatches"`
	CommandBuffers float64 `json:"command_buffers"`
	Waits          float64 `json:"waits"`
}

// Count makes records tell what steps ask of the GPU. count returns what it was asked for since it was opened, or nil where
// nothing is counted; it is called while no request runs.
func (b *Bench) Count(count func() *Counts) { b.count = count }

// tally is counts with the steps that they belong to.
type tally struct {
	counts *Counts
	steps  uint64
}

func (b *Bench) tally() tally {
	if b.count == nil {
		return tally{}
	}
	return tally{b.count(), b.engine.Snapshot().Steps}
}

// perStep is the mean of what came after t.
func (t tally) perStep(now tally) *PerStep {
	if t.counts == nil || now.counts == nil || now.steps == t.steps {
		return nil
	}
	steps := float64(now.steps - t.steps)
	return &PerStep{
		Dispatches:     float64(now.counts.Dispatches-t.counts.Dispatches) / steps,
		CommandBuffers: float64(now.counts.CommandBuffers-t.counts.CommandBuffers) / steps,
		Waits:          float64(now.counts.Waits-t.counts.Waits) / steps,
	}
}
