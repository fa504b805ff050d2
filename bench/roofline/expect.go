package roofline

import (
	"cmp"
	"math"
	"slices"
)

// Limits has the maximum speeds of a chip.
type Limits struct {
	Bandwidth float64 // bytes per second
	FLOPS     float64 // float32 operations per second; a multiply-add counts as two
}

// Limit returns the minimum time of a dispatch in seconds, without its launch.
func (l Limits) Limit(d Dispatch) float64 {
	return max(d.Bytes/l.Bandwidth, 2*d.Macs/l.FLOPS)
}

// Gaps lists the kernels whose expected time is less reliable, because no measurement has the same
// kernel, the same type and about the same number of rows. An entry is the name of a kernel,
// followed by the type.
type Gaps struct {
	// Missing has kernels for which no share of the bandwidth or arithmetic is known: they were not
	// measured, or only their time is known. They are expected to reach the limits of the chip.
	Missing []string `json:"missing,omitempty"`
	// OtherType has kernels that were measured with another type of weights or pages.
	OtherType []string `json:"other_type,omitempty"`
	// OtherRows has kernels that were measured only in steps with less than a quarter or more than
	// 4 times the number of rows.
	OtherRows []string `json:"other_rows,omitempty"`
}

// Expect returns the expected time in seconds, without the launch, of a dispatch in a step with the
// given number of rows. It adds the kernel to g if one of the measurements that Gaps describes is
// missing. known is false if the kernel was not measured, or only at a very different number of
// rows (Gaps.OtherRows). The expected time is the longest of three times:
//
//   - the time of the dispatch on the measured device, whatever the chip: small kernels wait for
//     latencies, and these are similar on all GPUs
//   - its bytes at the share of the chip's bandwidth that the kernel reached
//   - its operations at the share of the chip's arithmetic that the kernel reached
//
// Measurements.shares returns the shares that a kernel reached. For a kernel without shares, those
// of the same kernel with any type are used.
func (m *Measurements) Expect(d Dispatch, rows int, l Limits, g *Gaps) (seconds float64, known bool) {
	same := m.of(d, g)
	bandwidth, arithmetic := m.shares(same)
	if bandwidth == 0 && arithmetic == 0 && l.Limit(d) > 0 {
		if bandwidth, arithmetic = m.shares(m.named(d.Kernel)); bandwidth > 0 || arithmetic > 0 {
			add(&g.OtherType, d)
		} else {
			add(&g.Missing, d)
		}
	} else if len(same) == 0 {
		add(&g.Missing, d)
	}
	near := nearest(same, rows)
	known = len(near) > 0
	if known && (4*near[0].Rows < rows || near[0].Rows > 4*rows) {
		add(&g.OtherRows, d)
		known = false
	}
	t := max(interpolate(near, d), l.Limit(d))
	if bandwidth > 0 {
		t = max(t, d.Bytes/(l.Bandwidth*bandwidth))
	}
	if arithmetic > 0 {
		t = max(t, 2*d.Macs/(l.FLOPS*arithmetic))
	}
	return t, known
}

// of returns the measurements of a dispatch's kernel with the dispatch's type. If there are none,
// it adds the kernel to g and returns the measurements of the kernel with the first other type in
// the list.
func (m *Measurements) of(d Dispatch, g *Gaps) (same []Measurement) {
	var other []Measurement
	for _, k := range m.Kernels {
		switch {
		case k.Kernel != d.Kernel:
		case k.Type == d.Type:
			same = append(same, k)
		case len(other) == 0 || other[0].Type == k.Type:
			other = append(other, k)
		}
	}
	if len(same) == 0 && len(other) > 0 {
		add(&g.OtherType, d)
		return other
	}
	return same
}

// add adds the kernel and type of a dispatch to a sorted list of names, unless the list has it
// already.
func add(names *[]string, d Dispatch) {
	name := d.Kernel
	if d.Type != "" {
		name += " " + d.Type
	}
	if i, found := slices.BinarySearch(*names, name); !found {
		*names = slices.Insert(*names, i, name)
	}
}

func (m *Measurements) named(kernel string) (list []Measurement) {
	for _, k := range m.Kernels {
		if k.Kernel == kernel {
			list = append(list, k)
		}
	}
	return list
}

// minShareTime is the minimum time, in microseconds, of a measurement from which a share is
// computed. The error of shorter times is too large: the data can still be in a cache, and the
// subtracted time of the launch is about as long.
const minShareTime = 5

// shares returns the best shares of the bandwidth and of the arithmetic that a kernel reached in
// its measurements. It returns 0 for a resource that never limited the kernel. In a measurement,
// the kernel is assumed to be limited by the resource with the larger share, provided that it had a
// threadgroup for every core.
func (m *Measurements) shares(list []Measurement) (bandwidth, arithmetic float64) {
	var best struct{ bandwidth, arithmetic float64 }
	for _, k := range list {
		if k.Microseconds < minShareTime {
			continue
		}
		best.bandwidth, best.arithmetic = max(best.bandwidth, k.Share), max(best.arithmetic, k.Arithmetic)
		switch {
		case k.Groups < m.Cores:
		case k.Share >= k.Arithmetic:
			bandwidth = k.Share
		default:
			arithmetic = k.Arithmetic
		}
	}
	if bandwidth > 0 {
		bandwidth = best.bandwidth
	}
	if arithmetic > 0 {
		arithmetic = best.arithmetic
	}
	return bandwidth, arithmetic
}

// nearest returns the measurements at the number of rows whose ratio to rows is closest to 1: 4 is
// as close to 8 as 16 is. Of two equally close numbers, it takes the smaller one. The result is
// sorted by size (MB), with the shortest time of each size.
func nearest(list []Measurement, rows int) (near []Measurement) {
	distance := func(k Measurement) float64 { return math.Abs(math.Log(float64(k.Rows) / float64(rows))) }
	best := 0
	for i, k := range list {
		if d := distance(k) - distance(list[best]); d < 0 || d == 0 && k.Rows < list[best].Rows {
			best = i
		}
	}
	for _, k := range list {
		if k.Rows == list[best].Rows {
			near = append(near, k)
		}
	}
	slices.SortFunc(near, func(a, b Measurement) int {
		return cmp.Or(cmp.Compare(a.MB, b.MB), cmp.Compare(a.Microseconds, b.Microseconds))
	})
	return slices.CompactFunc(near, func(a, b Measurement) bool { return a.MB == b.MB }) // the shortest time of each size
}

// interpolate returns the time of a dispatch in seconds, interpolated linearly by its bytes between
// the next smaller and the next larger measurement. Beyond the smallest or largest measurement, it
// returns that measurement's time.
func interpolate(list []Measurement, d Dispatch) float64 {
	if len(list) == 0 {
		return 0
	}
	mb := d.Bytes / 1e6
	i := slices.IndexFunc(list, func(k Measurement) bool { return k.MB >= mb })
	switch {
	case i < 0:
		return list[len(list)-1].Microseconds * 1e-6
	case i == 0:
		return list[0].Microseconds * 1e-6
	}
	a, b := list[i-1], list[i]
	return (a.Microseconds + (b.Microseconds-a.Microseconds)*(mb-a.MB)/(b.MB-a.MB)) * 1e-6
}
