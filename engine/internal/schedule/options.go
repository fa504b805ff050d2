package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Options set up a Scheduler.
type Options struct {
	Model        model.Model
	Limits       model.Limits // the limits of Model
	Tokenizer    *tokenizer.Tokenizer
	Speculator   *draft.Speculator // nil to draft nothing
	Steps        *cost.Steps       // expected durations of steps; nil to plan steps without time limits
	StepTime     time.Duration     // maximum duration of a step with prompts; 0 to derive it from Steps
	MaxInFlight  int               // number of steps that may be submitted to the backend before a wait
	MaxSequences int               // maximum number of sequences of a step
	PrefillChunk int               // maximum number of rows of one prompt in a step
	MaxResult    int64             // maximum bytes of a completion with log-probabilities and of the JSON made from it; 0 for no limit
	NoSharing    bool              // compute every prompt in full, even if its beginning is in the cache
	Trace        func(compute.Checkpoint)
}

// Outputs returns the maximum number of rows of a step that reach the output head: the value of model.Limits.Outputs.
func Outputs(maxSequences int) int { return maxSequences + maxPromptOutputs + draft.MaxOutputs }
