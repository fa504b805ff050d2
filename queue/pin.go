package queue

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/openai"
)

// Pin returns a text that identifies what a worker's answers depend on: the model file (weights and
// chat template), the default sampling options, with the recommended ones if the worker uses them
// (Origin.Sampling), and engine.Info.Arithmetic. Under each alias, a batch accepts only answers
// whose Pin agrees with that of the first answer, unless Batch.MixModels is set.
func Pin(modelSHA256, sampling, arithmetic string) string {
	pin := modelSHA256 + "/" + openai.DefaultsID()
	if sampling != "" {
		pin += "+" + sampling
	}
	if arithmetic != "" {
		pin += "/" + arithmetic
	}
	return pin
}

// PinsAgree reports whether answers with pin may be mixed with those of a batch that was pinned to
// first. Earlier versions pinned batches without the arithmetic: such a pin, which is the beginning
// of pin, agrees with every arithmetic. The next answer then completes it. An empty pin agrees with
// every pin.
func PinsAgree(first, pin string) bool {
	return first == "" || pin == "" || first == pin || strings.HasPrefix(pin, first+"/")
}

// PinDifference describes for people how the answers of a batch that was pinned to first differ
// from those of a worker or run with pin, such as "answers with --kv f16; this worker has --kv
// q4_0". who names the worker or run.
func PinDifference(first, pin, who string) string {
	a, b := append(strings.SplitN(first, "/", 3), "", ""), append(strings.SplitN(pin, "/", 3), "", "")
	id, sampling, _ := strings.Cut(a[1], "+")
	ownID, own, _ := strings.Cut(b[1], "+")
	switch {
	case first == "":
		return "answers of another worker"
	case a[0] != b[0]:
		return fmt.Sprintf("answers of the model file with the SHA-256 %.12s…; %s has %.12s…", a[0], who, b[0])
	case a[1] != b[1] && id == ownID:
		return SamplingDifference(sampling, own, who)
	case a[1] != b[1]:
		return fmt.Sprintf("answers with the sampling defaults %s, those of another version; %s has %s", a[1], who, b[1])
	}
	return ArithmeticDifference(a[2], b[2], who)
}

// SamplingDifference is PinDifference for Origin.Sampling alone.
func SamplingDifference(first, own, who string) string {
	const none = "--sampling plain"
	return fmt.Sprintf("answers with %s for rows that set no sampling option; %s has %s", cmp.Or(first, none), who, cmp.Or(own, none))
}

// arithmeticParts names the parts of engine.Info.Arithmetic for people. A %s stands for the value.
var arithmeticParts = []string{"arithmetic of version %s", "kernels %s", "--kv %s", "%s RoPE factors"}

// ArithmeticDifference is PinDifference for the arithmetic alone.
func ArithmeticDifference(first, own, who string) string {
	a, b := strings.Split(first, "/"), strings.Split(own, "/")
	var theirs, ours []string
	for i, name := range arithmeticParts {
		a, b = append(a, ""), append(b, "") // parts that are missing
		if a[i] != b[i] {
			theirs = append(theirs, fmt.Sprintf(name, cmp.Or(a[i], "unknown")))
			ours = append(ours, fmt.Sprintf(name, cmp.Or(b[i], "unknown")))
		}
	}
	return fmt.Sprintf("answers with %s; %s has %s", strings.Join(theirs, ", "), who, strings.Join(ours, ", "))
}
