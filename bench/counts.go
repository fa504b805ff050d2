package bench

// Counts has totals of a GPU's work: dispatches, submitted command buffers, and waits for them.
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

// Count sets the function that returns the totals of a GPU's work since the GPU was opened. The function returns nil if there is no GPU,
// and is called only while no request runs. Record.PerStep is computed from the totals before and after the timed runs.
func (b *Bench) Count(count func() *Counts) { b.count = count }

// tally has the totals of the GPU's work and of the engine's steps at one time.
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
