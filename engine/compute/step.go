package compute

// Step records one forward pass. Operations take effect in the order of their calls; a backend may defer all of them until
// Run. An operation computes dst.Rows rows. The model guarantees that shapes fit: an operation panics on shapes that do not,
// since no input of a user can cause them.
//
// Weights are named as in GGUF files: a weight of shape {in, out} maps a row x of length in to W·x of length out.
type Step interface {
	// Embed writes the embedding of each row's token: dst[r] = table[tokens[r]]. The tokens are Batch.Tokens, or those that Top
	// found if Batch.From is set.
	Embed(dst Tensor, table Weight)
	// Gather copies rows, such as those that reach the output head: dst[i] = src[rows[i]].
	Gather(dst, src Tensor, rows []int32)
	// RMSNorm writes src/sqrt(mean(src²)+eps)·gain, row by row. dst may be src.
	RMSNorm(dst, src Tensor, gain Weight, eps float32)
	// MatMul writes the products of x with each of w side by side: dst[r] = [w0·x[r], w1·x[r], …].
	MatMul(dst, x Tensor, w ...Weight)
	// MatMulAdd adds a product to what dst holds: dst[r] += w·x[r].
	MatMulAdd(dst, x Tensor, w Weight)
	// GatedMatMul writes a gated activation: dst[r] = silu(gate·x[r]) * (up·x[r]).
	GatedMatMul(dst, x Tensor, gate, up Weight)

	// RopeStore rotates the queries and keys of qkv in place and stores keys and values in the cache. A row of qkv is
	// [Heads*KeyDim | KVHeads*KeyDim | KVHeads*ValueDim].
	RopeStore(qkv Tensor, shape AttentionShape, rope Rope, cache Cache, layer int)
	// Latents finishes MLA's compressed projections in place and stores the latent and the rotated key in the cache. A row
	// of a is [q of qGain's length | c of kvGain's length | k_pe of rope.Dims()]; q and c are normed, k_pe is rotated. A nil
	// qGain means that a has no q.
	Latents(a Tensor, qGain, kvGain Weight, eps float32, rope Rope, cache Cache, layer int)
	// Absorb brings MLA's queries into the latent space: per head, q [nope | rope] becomes [kb[head]·nope | rotated rope].
	// kb has shape {nope, latent, heads}; q is [rows, heads*(nope+rope)], dst is [rows, heads*(latent+rope)].
	Absorb(dst, q Tensor, kb Weight, rope Rope)
	// Attention writes each query head's attention over its sequence's cached positions. q is [rows, ≥Heads*KeyDim], dst is
	// [rows, Heads*ValueDim].
	Attention(dst, q Tensor, shape AttentionShape, cache Cache, layer int)
	// Expand brings MLA's contexts out of the latent space: per head, dst = vb[head]·ctx. vb has shape {latent, value, heads};
	// ctx is [rows, heads*latent], dst is [rows, heads*value].
	Expand(dst, ctx Tensor, vb Weight)

	// Route chooses each row's experts. dst is [rows, 2*Used]: the indices of the chosen experts, best first and of equals
	// the lower first, then their weights. Indices are stored as floats, which are exact far beyond any number of
	// experts, so that a routing is an ordinary buffer. router has shape {in, experts}; bias, which may be nil, is added for choosing only.
	Route(dst, x Tensor, router, bias Weight, shape RouteShape)
	// GatedExperts writes the gated activations of each row's chosen experts, and of the shared ones after them:
	// dst[r] = [expert 0 of r's routing | … | shared], each silu(gate·x)*(up·x). e.Shared may be absent.
	GatedExperts(dst, x, routing Tensor, e Experts)
	// ExpertsAdd adds the experts' down products to dst: dst[r] += Σ weight·down[expert]·h[r, expert] + shared down·h[r, shared],
	// where h is what GatedExperts wrote.
	ExpertsAdd(dst, h, routing Tensor, e Experts)

	// Top writes the k highest of each row of logits: dst[r] = [their ids | their values | log Σ exp(logit) over the row], best
	// first and of equals the lower id first. k is at most logits.Cols, and dst.Cols is 2k+1. Ids are stored as floats, which
	// are exact below 2²⁴. If a logit of a row is not finite, its last value is not finite either; ids are in range even then.
	Top(dst, logits Tensor, k int)

	// Checkpoint reports the rows of t to the batch's Trace; it does nothing without one.
	Checkpoint(layer int, stage string, t Tensor)
	// Submit ends the recording of the step and starts it, without waiting for its results. Another step may then begin,
	// which runs after this one; at most Backend.MaxInFlight are in flight. After an error none is.
	Submit() error
	// Run completes the step and all that were submitted before it: when it returns, all results can be read. The error may
	// be that of an earlier step. The backend can be used after it.
	Run() error
}

// AttentionShape is the geometry of an attention.
type AttentionShape struct {
	Heads    int     // query heads
	KVHeads  int     // key heads, which divide Heads: query head h reads key head h/(Heads/KVHeads)
	KeyDim   int     // values of a query and of a key
	ValueDim int     // values of a value
	Scale    float32 // of the scores, before the softmax
}

// Gating is the function that turns a router's logits into probabilities.
type Gating int

// The gatings of GGUF's expert_gating_func.
const (
	GatingSoftmax Gating = 1
	GatingSigmoid Gating = 2
)

// RouteShape is the rule of a router. Gating gives probabilities over all experts. The Used experts with the highest
// probability+bias are chosen. Their weights are the probabilities without the bias, divided by their sum if Normalise is set,
// times Scale.
type RouteShape struct {
	Experts   int
	Used      int
	Gating    Gating
	Normalise bool
	Scale     float32
}

// Experts is the weights of a mixture of experts.
type Experts struct {
	Gate, Up Weight // {in, ffn, experts}, of one type
	Down     Weight // {ffn, in, experts}
	// The shared experts as one wide expert, {in, width} and {width, in}; nil if a model has none.
	SharedGate, SharedUp, SharedDown Weight
}

// RopeFreqs defines rotations: pair i of a head, values 2i and 2i+1, is turned by position·Freqs[i] and scaled by Scale.
type RopeFreqs struct {
	Freqs []float32 // [dims/2] radians per position
	Scale float32   // of sine and cosine; 1 except with YaRN
}
