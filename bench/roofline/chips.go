// Package roofline predicts the speed of a model on Apple's chips. A prediction has a limit,
// computed from the bytes and operations of each dispatch of a step, and an expected speed,
// computed from the times of the same kernels on another GPU. The package also measures these
// times, on any GPU.
package roofline

import (
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/metal"
)

// Chip is one of Apple's chips.
type Chip struct {
	Name     string
	Variants []Variant
}

// Variant is a version of a chip that Apple sells. Of several versions with the same bandwidth,
// only the one with the most GPU cores is listed.
type Variant struct {
	GBPerS float64 // gigabytes (1e9 bytes) per second that Apple specifies
	Cores  int     // number of GPU cores that Apple specifies
	GHz    float64 // clock of the GPU, as measured by others, rounded; for M5, that of M4 is assumed
}

// flopsPerClock is the number of float32 operations of a core per clock: 128 fused multiply-adds.
const flopsPerClock = 2 * 128

// Limits returns the maximum bandwidth and arithmetic of the variant.
func (v Variant) Limits() Limits {
	return Limits{Bandwidth: v.GBPerS * 1e9, FLOPS: flopsPerClock * float64(v.Cores) * v.GHz * 1e9}
}

var chips = []Chip{
	{"M1", []Variant{{68, 8, 1.3}}}, {"M1-Pro", []Variant{{200, 16, 1.3}}}, {"M1-Max", []Variant{{400, 32, 1.3}}}, {"M1-Ultra", []Variant{{800, 64, 1.3}}},
	{"M2", []Variant{{100, 10, 1.4}}}, {"M2-Pro", []Variant{{200, 19, 1.4}}}, {"M2-Max", []Variant{{400, 38, 1.4}}}, {"M2-Ultra", []Variant{{800, 76, 1.4}}},
	{"M3", []Variant{{100, 10, 1.4}}}, {"M3-Pro", []Variant{{150, 18, 1.4}}}, {"M3-Max", []Variant{{300, 30, 1.4}, {400, 40, 1.4}}}, {"M3-Ultra", []Variant{{800, 80, 1.4}}},
	{"M4", []Variant{{120, 10, 1.5}}}, {"M4-Pro", []Variant{{273, 20, 1.6}}}, {"M4-Max", []Variant{{410, 32, 1.6}, {546, 40, 1.6}}},
	{"M5", []Variant{{153, 10, 1.6}}}, {"M5-Pro", []Variant{{307, 20, 1.6}}}, {"M5-Max", []Variant{{460, 32, 1.6}, {614, 40, 1.6}}}, {"M5-Ultra", []Variant{{1200, 80, 1.6}}},
}

// Chips returns the names of all chips.
func Chips() (names []string) {
	for _, c := range chips {
		names = append(names, c.Name)
	}
	return names
}

// ParseChip finds a chip by its name, such as "M5-Max" or "m5 max".
func ParseChip(s string) (Chip, error) {
	for _, c := range chips {
		if strings.EqualFold(c.Name, strings.ReplaceAll(s, " ", "-")) {
			return c, nil
		}
	}
	return Chip{}, fmt.Errorf("chip %q is not known: use %s", s, strings.Join(Chips(), ", "))
}

// LimitsOf returns the limits of a GPU: of an Apple chip, those of its fastest variant, else the
// bandwidth that the driver reports. A value that is not known is 0.
func LimitsOf(i metal.Info) Limits {
	if name, ok := strings.CutPrefix(i.Name, "Apple "); ok {
		if c, err := ParseChip(name); err == nil {
			return c.Variants[len(c.Variants)-1].Limits()
		}
	}
	return Limits{Bandwidth: i.Bandwidth}
}
