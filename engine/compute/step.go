package compute

// Step records one forward pass. Operations take effect in the order of their calls. A backend may
// defer all of them until Submit or Run. An operation computes dst.Rows rows. It panics if shapes
// do not match, so a model must guarantee that they match for any input of a user.
//
// Shapes of weights are written as in GGUF files: a weight of shape {in, out} maps a row x of the
// length in to the row W·x of the length out.
type Step interface {
	// Embed writes the embedding of each row's token: dst[r] = table[tokens[r]]. The tokens are
	// Batch.Tokens or, if Batch.From is set, the first ids of the rows of Batch.From.
	Embed(dst Tensor, table Weight)
	// Gather copies rows, such as the outputs: dst[i] = src[rows[i]].
	Gather(dst, src Tensor, rows []int32)
	// RMSNorm writes src/sqrt(mean(src²)+eps)·gain, row by row. dst may be src.
	RMSNorm(dst, src Tensor, gain Weight, eps float32)
	// RMSNormAdd adds a normed row to dst: dst[r] += src/sqrt(mean(src²)+eps)·gain.
	RMSNormAdd(dst, src Tensor, gain Weight, eps float32)
	// Affine changes rows in place: t[r] = scale·t[r] + bias. bias has a value for each column; it
	// can be nil. If scale is 0, the earlier values do not matter, even if they are not finite.
	Affine(t Tensor, scale float32, bias Weight)
	// SoftCap limits values in place: t[r] = limit·tanh(t[r]/limit).
	SoftCap(t Tensor, limit float32)
	// Activate writes the gated activation of two tensors, value by value: dst = act(gate, up). dst
	// may be gate or up.
	Activate(dst, gate, up Tensor, act Activation)
	// MatMul writes the products of x with all weights side by side: dst[r] = [w0·x[r], w1·x[r],
	// …].
	MatMul(dst, x Tensor, w ...Weight)
	// MatMulAdd adds a product to dst: dst[r] += w·x[r].
	MatMulAdd(dst, x Tensor, w Weight)
	// GatedMatMul writes a gated activation: dst[r] = act(gate·x[r], up·x[r]).
	GatedMatMul(dst, x Tensor, gate, up Weight, act Activation)

	// RopeStore changes the rows of qkv in place and stores their keys and values in the cache. A
	// row of qkv is [queries Heads*KeyDim | keys KVHeads*KeyDim | values KVHeads*ValueDim].
	// RopeStore adds the projection's bias, then norms each head of the queries and keys, then
	// rotates these heads. If rope is nil, nothing is rotated. shape.KVHeads can be 0: a row then
	// has only queries, and nothing is stored.
	RopeStore(qkv Tensor, p Projection, shape AttentionShape, rope Rope, cache Cache, layer int)
	// Latents norms and rotates MLA's compressed projections, and stores the latent and the key in
	// the cache. A row of the tensor a is [q | c | k_pe]: the compressed query, the latent and the
	// key part with position. q has the length of qGain, c has the length of kvGain, and k_pe has
	// rope.Dims() values. Latents writes the normed q to dst, which can be the same columns of the
	// same tensor. It norms c and rotates k_pe in place. If qGain is nil, the rows have no q, and
	// dst is not used.
	Latents(dst, a Tensor, qGain, kvGain Weight, eps float32, rope Rope, cache Cache, layer int)
	// Absorb projects MLA's queries into the latent space: per head, q [nope | rope] becomes
	// [kb[head]·nope | rotated rope]. kb has shape {nope, latent, heads}; q is [rows,
	// heads*(nope+rope)], dst is [rows, heads*(latent+rope)].
	Absorb(dst, q Tensor, kb Weight, rope Rope)
	// Attention writes the attention of each query head over the cached positions of the row's
	// sequence. q is [rows, ≥Heads*KeyDim], dst is [rows, Heads*ValueDim].
	Attention(dst, q Tensor, shape AttentionShape, cache Cache, layer int)
	// ShortConv computes a causal convolution with gates, as in LFM2. It changes x to s = b·x, and
	// stores s in the cache: the first columns like keys, those after KVHeads*KeyDim like values.
	// With the stored s of earlier positions, which are 0 before position 0, and s of the row
	// itself as it is, it then changes the row c at position p:
	//
	//	c ← c·Σ_j w[j]·s_{p-taps+1+j}
	//
	// The tensors have the same number of columns, whole heads of the shape. w has taps values for
	// each column, {taps*columns}, those of column 0 first, that of the row itself last.
	ShortConv(c, b, x Tensor, w Weight, shape AttentionShape, cache Cache, layer int)
	// Expand projects MLA's contexts out of the latent space: per head, dst = vb[head]·ctx. vb has
	// shape {latent, value, heads}; ctx is [rows, heads*latent], dst is [rows, heads*value].
	Expand(dst, ctx Tensor, vb Weight)

	// Route chooses each row's experts. dst is [rows, 2*Used]: the indices of the chosen experts,
	// then their weights. The expert with the highest score is first; of experts with equal scores,
	// the lower index is first. Indices are stored as floats, which represent them exactly, so that
	// a routing is an ordinary buffer. router has shape {in, experts}. bias can be nil;
	// shape.BiasLogits selects what it is added to. Its length is the number of experts, or twice
	// this number with shape.Scaled.
	Route(dst, x Tensor, router, bias Weight, shape RouteShape)
	// GatedExperts writes the gated activations of each row's chosen experts, then those of the
	// shared experts, if there are any: dst[r] = [first expert in routing[r] | … | shared experts].
	// The activations of an expert are act(gate·x, up·x) with its gate and up.
	GatedExperts(dst, x, routing Tensor, e Experts)
	// ExpertsAdd adds the experts' down products to dst: dst[r] += Σ weight·(down[expert]·h[r,
	// expert] + bias[expert]) + shared down·h[r, shared]. h is the result of GatedExperts.
	ExpertsAdd(dst, h, routing Tensor, e Experts)

	// Convolve writes a causal convolution of each column over the rows of a sequence, with an
	// activation: dst[t] = silu(bias + Σ w[j]·x[t-ConvRows+j]) for j = 0 … ConvRows. w has
	// ConvRows+1 values for each column, {(ConvRows+1)*ConvCols}: those of column 0 first, the
	// oldest row's first. bias is {ConvCols} or nil. Rows before the sequence's first row in the
	// batch come from its state (see SeqState), and are 0 before position 0. dst and x are [rows,
	// ConvCols] and do not overlap.
	Convolve(dst, x Tensor, w, bias Weight, states States, layer int)
	// DeltaNet computes the gated delta rule. A row of qkv is [queries KeyHeads*KeyDim | keys
	// KeyHeads*KeyDim | values Heads*ValueDim]; a row of gates is [b Heads | a Heads]; dst is
	// [rows, Heads*ValueDim]. For each head, with its key head's query q and key k, its value v,
	// and its matrix S of KeyDim x ValueDim, which is 0 before position 0:
	//
	//	q ← q/√(Σq²+Eps)/√KeyDim;  k ← k/√(Σk²+Eps)
	//	β = σ(b);  g = Decay·softplus(a+Bias)
	//	S ← e^g·S;  S ← S + k·β(v - Sᵀk)ᵀ;  dst = Sᵀq
	//
	// Rows of the prompt are computed in chunks of up to ChunkRows rows, with G_i = g_1 + … + g_i
	// and S the matrix before the chunk; see SeqState:
	//
	//	u_i = β_i·(v_i - e^{G_i}·Sᵀk_i) - β_i·Σ_{j<i} (k_i·k_j)·e^{G_i-G_j}·u_j
	//	dst_i = e^{G_i}·Sᵀq_i + Σ_{j≤i} (q_i·k_j)·e^{G_i-G_j}·u_j
	//	S ← e^{G_n}·S + Σ_j e^{G_n-G_j}·k_j·u_jᵀ
	//
	// A row does not depend on later rows of its chunk. qkv, gates and dst do not overlap.
	DeltaNet(dst, qkv, gates Tensor, d Delta, states States, layer int)
	// Scan computes the state space model of Mamba-2. A row of xbc is [x Heads*ValueDim | B
	// Groups*KeyDim | C Groups*KeyDim]; dt and dst are [rows, Heads] and [rows, Heads*ValueDim].
	// For each head, with its group's B and C, and its matrix S of KeyDim x ValueDim, which is 0
	// before position 0:
	//
	//	δ = softplus(dt+Bias);  g = Decay·δ;  u = δ·x
	//	S ← e^g·S + B·uᵀ;  dst = Sᵀ·C + Skip·x
	//
	// Rows of the prompt are computed in chunks of up to ChunkRows rows, with G_i = g_1 + … + g_i
	// and S the matrix before the chunk; see SeqState:
	//
	//	dst_i = e^{G_i}·Sᵀ·C_i + Σ_{j≤i} (C_i·B_j)·e^{G_i-G_j}·u_j + Skip·x_i
	//	S ← e^{G_n}·S + Σ_j e^{G_n-G_j}·B_j·u_jᵀ
	//
	// A row does not depend on later rows of its chunk. The log of drafts has B, u and e^g. xbc, dt
	// and dst do not overlap.
	Scan(dst, xbc, dt Tensor, sc Scan, states States, layer int)
	// GatedNorm norms runs of n.Dims values of each row, and multiplies them by a gate: dst =
	// x/√(mean(x²)+Eps)·Gain·silu(gate). With n.GateFirst, x·silu(gate) takes the place of x, and
	// the gate is not applied again. All tensors have the same columns; dst may be x.
	GatedNorm(dst, x, gate Tensor, n GatedNorm)
	// Gate multiplies rows by the sigmoid of a gate: dst[r] *= σ(gate[r]). gate has dst's columns,
	// or a single one, which applies to the whole row.
	Gate(dst, gate Tensor)

	// Top finds the k highest logits of each row: dst[r] = [their ids | their values | log Σ
	// exp(logit) over the row]. The highest logit is first; of equal logits, the lower id is first.
	// k is at most logits.Cols, and dst.Cols is 2k+1. Ids are stored as floats, which are exact
	// below 2²⁴. If a logit of a row is NaN or +Inf, or if all are -Inf, the last value of dst[r]
	// is not finite either, but the ids are in range.
	Top(dst, logits Tensor, k int)

	// Draw chooses the next token of each row: dst[r] = [id | logit | highest logit]. dst.Cols is
	// DrawCols, which explains the values. draws has an element for each row. Draw changes logits
	// by the edits. Ids are stored as floats, which are exact below 2²⁴, so that dst can be the
	// From of a later batch.
	Draw(dst, logits Tensor, draws []Draw)

	// Checkpoint reports the rows of t to the batch's Trace. Without a Trace, it does nothing.
	Checkpoint(layer int, stage string, t Tensor)
	// Submit starts the recorded step without waiting for its results. Another step may then begin;
	// it runs after this one. At most Backend.MaxInFlight steps may be in flight. After an error,
	// no step is in flight.
	Submit() error
	// Run starts the recorded step and waits for it and for all steps that were submitted before
	// it. When Run returns, all results can be read. The error can be that of an earlier step. The
	// backend remains usable after an error.
	Run() error
}

// AttentionShape has the sizes and settings of an attention operation.
type AttentionShape struct {
	Heads    int     // number of query heads
	KVHeads  int     // key heads, a divisor of Heads; query head h reads key head h/(Heads/KVHeads)
	KeyDim   int     // length of a head's query and key
	ValueDim int     // length of a head's value
	Scale    float32 // factor of the scores, before the softmax
	// Window is the number of positions that a row attends to, including its own. 0 means all
	// positions of its sequence.
	Window int
	// Sinks has an additional score for each query head, {Heads}, or is nil. The softmax includes
	// the sink's score, to which Scale does not apply. A sink has no value: it only takes a share
	// of the weights.
	Sinks Weight
}

// First returns the first position that a row at the given position attends to.
func (s *AttentionShape) First(position int) int {
	if s.Window == 0 {
		return 0
	}
	return max(0, position+1-s.Window)
}

// Projection describes what RopeStore does to queries, keys and values before the rotation. The
// zero value does nothing.
type Projection struct {
	Bias               Weight // {length of a row of qkv}, or nil
	QueryNorm, KeyNorm Weight // {KeyDim} gains of the RMS norms of each head of the queries and keys; both are nil for no norms
	Eps                float32
	// ValueNorm norms each head of the values, without a gain: v/sqrt(mean(v²)+Eps).
	ValueNorm bool
	// ValuesFromKeys sets the values to the keys, after the bias and before the norms. KeyDim and
	// ValueDim must be the same.
	ValuesFromKeys bool
}

// Activation is the function that joins the gate and up products of a feed-forward network.
type Activation int

// The activations. σ is the sigmoid function.
const (
	SiLU   Activation = iota // gate·σ(gate) · up
	GELU                     // gelu(gate) · up, with the approximation of gelu by tanh
	SwiGLU                   // g·σ(1.702·g) · (u+1), with g = min(gate, 7) and u = min(max(up, -7), 7); used by gpt-oss
	ReLU                     // max(gate, 0) · up; if gate and up are the same weight, this is the square of ReLU
)

// Gating is the function that turns a router's logits into probabilities.
type Gating int

// The gatings, with their values in GGUF's expert_gating_func.
const (
	GatingSoftmax Gating = 1
	GatingSigmoid Gating = 2
)

// RouteShape describes how a router chooses experts and computes their weights. Gating turns the
// logits of all experts into probabilities. The Used experts with the highest probability+bias are
// chosen. An expert's weight is its probability without the bias, times Scale. If Normalise is set,
// the probabilities are first divided by the sum of the chosen experts' probabilities. If
// BiasLogits is set, the bias is added to the logits instead of the probabilities. If Scaled is
// set, the bias has a second half, with a factor for each expert's weight.
type RouteShape struct {
	Experts    int
	Used       int
	Gating     Gating
	BiasLogits bool
	Normalise  bool
	Scaled     bool
	Scale      float32
}

// Experts has the weights of a mixture of experts.
type Experts struct {
	Gate, Up   Weight // {in, ffn, experts}; both have the same type
	Down       Weight // {ffn, in, experts}
	Activation Activation
	// The biases of the products, one expert after another; all nil if there are no biases.
	GateBias, UpBias Weight // {ffn*experts}
	DownBias         Weight // {in*experts}
	// The weights of the shared experts, joined into one wide expert: {in, width} for gate and up,
	// {width, in} for down. They are nil if a model has no shared experts.
	SharedGate, SharedUp, SharedDown Weight
}

// RopeFreqs defines rotations: pair i of a head is rotated by the angle position·Freqs[i], in
// radians, and multiplied by Scale. A pair is values 2i and 2i+1 or, if Halves is set, values i and
// i+dims/2.
type RopeFreqs struct {
	Freqs  []float32 // [dims/2] radians per position
	Scale  float32   // factor of sine and cosine; 1 except with YaRN
	Halves bool
	First  int // position for which a table has its first row: rows are rotated as if all positions were larger by First
}
