package cuda

import (
	"bytes"
	"errors"
	"unsafe"
)

const (
	// minPattern is the minimum number of dispatches of a submission that uses the graph of a
	// pattern. Fewer launches in the stream take less time than the update of a graph.
	minPattern = 32
	// patternShare sets how many of the launches in all graphs may be those of patterns: their
	// number divided by patternShare.
	patternShare = 8
)

// patterns holds the CUDA graphs of submissions that do not come often enough for a graph of their
// own, such as steps with prompts or drafts: their numbers of rows are seldom those of an earlier
// step. Submissions with the same number of launches and the same barriers share a graph. For each
// of them, the nodes whose launches differ from those of the submission before get its kernels,
// grids and parameters. For 247 launches, this and the launch of the graph take 0.3 ms on an H200's
// host, instead of 0.9 ms for launches in the stream, which also take the GPU longer.
type patterns struct {
	all      map[string]*pattern // by the barriers of the launches
	launches int                 // number of launches in all patterns
	limit    int                 // maximum number of launches
	uses     uint64              // number of calls of find
	barriers []byte              // memory of a key
}

// pattern is a graph that is updated for each submission. When a pattern comes for the first time,
// the kernels are launched one by one in the stream. When it comes for the second time, it gets a
// graph.
type pattern struct {
	built
	launches launches // those of the last submission
	count    int      // number of dispatches
	broken   bool     // the driver has refused an update, so the graph was dropped
	used     uint64   // number of the last call of find that used the pattern
}

func newPatterns(limit int) patterns { return patterns{all: map[string]*pattern{}, limit: limit} }

// find returns the CUgraphExec of a submission with the given number of dispatches, or 0 if its
// launches are to go to the stream.
func (p *patterns) find(d *Device, l launches, count int) (exec uintptr, err error) {
	if count < minPattern || count > p.limit {
		return 0, nil
	}
	p.uses++
	p.barriers = l.barriers(p.barriers[:0])
	have := p.all[string(p.barriers)]
	switch {
	case have == nil:
		have = &pattern{count: count, used: p.uses}
		return 0, p.add(d, string(p.barriers), have)
	case have.broken:
		have.used = p.uses
		return 0, nil
	case have.exec == 0:
		if have.built, err = d.build(l); err != nil {
			return 0, err
		}
	default:
		if err := have.update(d, l); err != nil {
			have.broken = true
			if lost(err) {
				return 0, err
			}
			return 0, have.destroy(d)
		}
	}
	have.launches = append(have.launches[:0], l...)
	have.used = p.uses
	return have.exec, nil
}

// add adds a pattern. It first drops the least recently used patterns if there are too many.
func (p *patterns) add(d *Device, key string, added *pattern) error {
	for p.launches+added.count > p.limit {
		oldest := ""
		for other, have := range p.all {
			if first := p.all[oldest]; first == nil || have.used < first.used {
				oldest = other
			}
		}
		have := p.all[oldest]
		delete(p.all, oldest)
		p.launches -= have.count
		if err := have.destroy(d); err != nil {
			return err
		}
	}
	p.all[key] = added
	p.launches += added.count
	return nil
}

// update changes the nodes of the launches that differ from those of the last submission. The
// graph may be in flight: an update changes later launches of the graph only.
func (p *pattern) update(d *Device, l launches) error {
	b := &d.queue.graphs.building
	before := p.launches
	for i := 0; len(l) > 0; i++ {
		var h, hBefore *launchHeader
		var parameters, parametersBefore launches
		h, parameters, l = l.next()
		hBefore, parametersBefore, before = before.next()
		if h.equal(hBefore) && bytes.Equal(parameters, parametersBefore) {
			continue
		}
		b.node = d.queue.node(h, parameters)
		if err := d.driver.call(cuGraphExecKernelNodeSetParams, p.exec, p.nodes[i], uintptr(unsafe.Pointer(&b.node))); err != nil {
			return err
		}
	}
	return nil
}

// destroy frees the graph. CUDA delays this until it has run.
func (p *pattern) destroy(d *Device) error {
	if p.exec == 0 {
		return nil
	}
	err := errors.Join(d.driver.call(cuGraphExecDestroy, p.exec), d.driver.call(cuGraphDestroy, p.graph))
	p.built = built{}
	return err
}
