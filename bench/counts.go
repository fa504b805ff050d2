package bench

// Counts has totals of a GPU's work: dispatches, submitted command buffers, and waits for them.
type Counts struct {
	Dispatches, CommandBuffers, Waits int
}

// PerStep is the GPU's work per step: the mean over all steps of the timed runs, including steps
// with prompts. Drafting passes are included.
type PerStep struct {
	Dispatches     float64 `json:"dispatches"`
	CommandBuffers float64 `json:"command_buffers"`
	Waits          float64 `json:"waits"`
}

// Count sets the function that returns the totals of a GPU's work since the GPU was opened. The
// function returns nil if there is no GPU, and is called only while no request runs. Record.PerStep
// is computed from the totals before and after the timed runs.
func (b *Bench) Count(count func() *Counts) { b.count = count }

func (b *Bench) counts() (c *Counts, steps uint64) {
	if b.count == nil {
		return nil, 0
	}
	return b.count(), b.engine.Snapshot().Steps
}

// per returns the mean work per step between two totals. It returns nil if there is no GPU or no
// step.
func (c *Counts) per(steps uint64, since *Counts) *PerStep {
	if c == nil || steps == 0 {
		return nil
	}
	mean := func(now, before int) float64 { return float64(now-before) / float64(steps) }
	return &PerStep{mean(c.Dispatches, since.Dispatches), mean(c.CommandBuffers, since.CommandBuffers), mean(c.Waits, since.Waits)}
}
