// Package roofline predicts the speed of decoding on Apple's chips from the bytes that a step must read, its number of dispatches on the
// GPU, and the bandwidth that Apple specifies. It runs nothing on a GPU.
package roofline

import (
	"fmt"
	"strings"
)

// Chip is one of Apple's chips.
type Chip struct {
	Name string
	// Bandwidths has the gigabytes (1e9 bytes) per second that Apple specifies. Some chips have a second variant with fewer
	// cores and less bandwidth.
	Bandwidths []float64
}

// chips has the Mac chips whose GPU can run the kernels.
var chips = []Chip{
	{"M1", []float64{68}}, {"M1-Pro", []float64{200}}, {"M1-Max", []float64{400}}, {"M1-Ultra", []float64{800}},
	{"M2", []float64{100}}, {"M2-Pro", []float64{200}}, {"M2-Max", []float64{400}}, {"M2-Ultra", []float64{800}},
	{"M3", []float64{100}}, {"M3-Pro", []float64{150}}, {"M3-Max", []float64{300, 400}}, {"M3-Ultra", []float64{800}},
	{"M4", []float64{120}}, {"M4-Pro", []float64{273}}, {"M4-Max", []float64{410, 546}},
	{"M5", []float64{153}}, {"M5-Pro", []float64{307}}, {"M5-Max", []float64{460, 614}}, {"M5-Ultra", []float64{1200}},
}

// ParseChip finds a chip by its name, such as "M5-Max" or "m5 max".
func ParseChip(s string) (Chip, error) {
	var names []string
	for _, c := range chips {
		if strings.EqualFold(c.Name, strings.ReplaceAll(s, " ", "-")) {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Chip{}, fmt.Errorf("chip %q is not known: use %s", s, strings.Join(names, ", "))
}
