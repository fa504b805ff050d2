package roofline

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/ingot-run/ingot/bench"
)

// share is the part of a device's stated bandwidth that the kernels for a part of a step's bytes reached.
type share struct {
	Device string  `json:"device"`
	Part   string  `json:"part"` // of bench.Parts
	Rows   int     `json:"rows"` // of the step
	Share  float64 `json:"share"`
}

// shares are the measurements. They come from the tables of docs/gpu.md: a GLM-4.7-Flash layer in Q4_K. Bytes over time, summed over
// the part's kernels. The cache's is the difference between steps at 128 and at 8,192 positions.
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

// measured returns the share of a part for a number of rows: that of the most rows, up to these, for which there is one.
func measured(part string, rows int) float64 {
	best := share{}
	for _, s := range shares {
		if s.Part == part && s.Rows <= rows && s.Rows > best.Rows {
			best = s
		}
	}
	return best.Share
}

// atMeasuredShares returns the bytes that could be read at the full bandwidth in the time that these take at the measured shares.
func atMeasuredShares(p bench.Parts, rows int) float64 {
	return p.Head/measured("head", rows) + p.Experts/measured("experts", rows) +
		p.Dense/measured("dense", rows) + p.Cache/measured("cache", rows)
}
