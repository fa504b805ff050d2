package bench

// Counts are totals of a GPU's work.
type Counts struct {
	Dispatches, CommandBuffers, Waits int
}

// PerStep is the GPU's work per step: the mean over all steps of the timed runs, including steps with prompts. Drafting passes are
// included.
type PerStep struct {
	Dispatches     float64 `json:"dispatches"`
	CommandBuffers float64 `json:"command_buffers"`
	Waits          float64 `json:"waits"`
}

// Count sets the function from which Record.PerStep is computed. count returns totals since the GPU was opened; nil if there is no GPU. It
// is called only while no request runs.
func (b *Bench) Count(count func() *Counts) { b.count = count }

// tally has the counts and the number of steps at one time.
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

// perStep returns the mean work per step between t and now.
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
