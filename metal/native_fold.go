package metal

import "github.com/ingot-run/ingot/engine/compute"

// A kernel for one row often takes less time than its launch. So four operations on one row are deferred: RMSNorm, MLA's Latents, the
// join of attention's splits, and the choice of experts by a routing's logits. If the next operation is a product or a routing of the
// result, or GatedExperts after a choice, one kernel computes both operations. Otherwise flush records the deferred operation.

const (
	// maxFoldedNorm is the maximum number of columns of an RMSNorm that the next operation's kernel computes. A threadgroup of that kernel
	// has 256 threads. Each thread takes two rounds of 8 values.
	maxFoldedNorm = 4096
	// maxFoldedJoin is the maximum number of values, over all splits, for which a product's kernel joins attention. Each of its
	// threadgroups joins all of them, so for more values a separate kernel is faster.
	maxFoldedJoin = 1 << 12
)

// pending is an operation on one row that is not recorded yet.
type pending struct {
	dst compute.Tensor // the result; without a buffer if nothing is pending

	src     compute.Tensor // the row that RMSNorm normalises, or the compressed query of Latents
	gain    *weight        // of the norm; nil for a join or a choice
	eps     float32        // of the norm
	latents latentRows     // what Latents stores; without a gain if the operation is not Latents

	join   attentionArgs // arguments of the attention whose splits are joined
	choice choice        // of experts
}

// threads returns the number of threads that normalise src.
func (p *pending) threads() int {
	if p.latents.gain != nil {
		return latentThreads
	}
	return 32 * normGroups(p.gain.in)
}

// flush records the pending operation, if there is one. An operation that cannot be combined with a pending one calls flush first.
func (s *step) flush() {
	p := s.pending
	s.pending = pending{}
	switch {
	case p.latents.gain != nil:
		s.storeLatents(p.dst, p.src, p.gain, p.latents)
	case p.gain != nil:
		s.integerNorm(p.dst, p.src, p.gain, p.eps)
	case p.choice.args.experts > 0:
		s.choose(p.choice)
	case p.dst.Buffer != nil:
		s.attentionJoin(p.dst, p.join)
	}
}

// fold returns the pending operation if the next kernel, whose result is dst, can compute it too. The pending operation's result must be x,
// dst must have one row and not overlap the operation's inputs, and the parameter suits must be true. The next kernel must then write both
// x and dst. Otherwise, fold records the pending operation and returns a pending without a buffer.
func (s *step) fold(dst, x compute.Tensor, suits bool) pending {
	p := s.pending
	if p.dst.Buffer == nil || p.dst.Buffer != x.Buffer || p.dst.Offset != x.Offset || dst.Rows != 1 ||
		overlap(dst, p.src) || overlap(dst, p.latents.t) || !suits {
		s.flush()
		return pending{}
	}
	s.pending = pending{}
	return p
}

// overlap reports whether two rows have values in common.
func overlap(a, b compute.Tensor) bool {
	return a.Buffer == b.Buffer && a.Offset < b.Offset+b.Cols && b.Offset < a.Offset+a.Cols
}
