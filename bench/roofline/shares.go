package roofline

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/ingot-run/ingot/bench"
)

// share is the share of a device's specified bandwidth that the kernels for one part of a step reached.
type share struct {
	Device string  `json:"device"`
	Part   string  `json:"part"` // name of a field of bench.Parts
	Rows   int     `json:"rows"` // number of rows of the step
	Share  float64 `json:"share"`
}

// shares has the measured shares, computed from the tables in docs/gpu.md for a GLM-4.7-Flash layer in Q4_K. A share is the bytes of a
// part, divided by the total time of the part's kernels and by the bandwidth. For the cache, bytes and time are the differences between
// steps at 128 and at 8,192 positions.
var shares []share

//go:embed shares.json
var sharesFile []byte

func init() {
	if err := json.Unmarshal(sharesFile, &shares); err != nil {
		panic(fmt.Sprintf("read shares.json: %v", err))
	}
}

// MeasuredOn returns the device on which the shares were measured.
func MeasuredOn() string { return shares[0].Device }

// measured returns the share of a part for a number of rows, or for the next lower number that was measured.
func measured(part string, rows int) float64 {
	best := share{}
	for _, s := range shares {
		if s.Part == part && s.Rows <= rows && s.Rows > best.Rows {
			best = s
		}
	}
	return best.Share
}

// atMeasuredShares returns the number of bytes whose reading at the full bandwidth would take as long as reading p at the measured shares.
func atMeasuredShares(p bench.Parts, rows int) float64 {
	return p.Head/measured("head", rows) + p.Experts/measured("experts", rows) +
		p.Dense/measured("dense", rows) + p.Cache/measured("cache", rows)
}
