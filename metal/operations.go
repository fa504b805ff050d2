package metal

import "github.com/ingot-run/ingot/engine/compute"

// An operation is a call of an operation of compute.Step with its arguments. A step collects its
// operations. When it is submitted, the backend's recorder records them.
type operation interface {
	// portable records the operation with the kernels in Metal's language.
	portable(p *portable)
}

type (
	embedding struct {
		dst   compute.Tensor
		table compute.Weight
	}
	gather struct {
		dst, src compute.Tensor
		rows     []int32
	}
	norm struct {
		fusion
		dst, src compute.Tensor
		gain     compute.Weight
		eps      float32
		add      bool // RMSNormAdd
	}
	affine struct {
		t     compute.Tensor
		scale float32
		bias  compute.Weight
	}
	gating struct {
		fusion
		dst, gate compute.Tensor
	}
	softCap struct {
		t     compute.Tensor
		limit float32
	}
	activating struct {
		dst, gate, up compute.Tensor
		activation    compute.Activation
	}
	top struct {
		dst, logits compute.Tensor
		k           int
	}
	product struct {
		fusion
		dst, x  compute.Tensor
		weights []compute.Weight
		add     bool // MatMulAdd
	}
	gatedProduct struct {
		fusion
		dst, x     compute.Tensor
		gate, up   compute.Weight
		activation compute.Activation
	}
	ropeStore struct {
		qkv   compute.Tensor
		proj  compute.Projection
		shape compute.AttentionShape
		rope  *rope // nil for no rotation
		cache *cache
		layer int
	}
	latents struct {
		fusion
		dst, t compute.Tensor
		qGain  *weight // nil without queries
		kvGain *weight
		eps    float32
		rope   *rope
		cache  *cache
		layer  int
	}
	absorb struct {
		dst, q compute.Tensor
		kb     compute.Weight
		rope   *rope
	}
	attention struct {
		fusion
		dst, q compute.Tensor
		shape  compute.AttentionShape
		cache  *cache
		layer  int
	}
	shortConv struct {
		c, b, x compute.Tensor
		w       compute.Weight
		shape   compute.AttentionShape
		cache   *cache
		layer   int
	}
	expand struct {
		fusion
		dst, ctx compute.Tensor
		vb       compute.Weight
	}
	route struct {
		fusion
		dst, x       compute.Tensor
		router, bias compute.Weight
		shape        compute.RouteShape
		// gate is the product of the same rows with the gate of the shared experts if the kernel of
		// the logits computes it too.
		gate *product
	}
	gatedExperts struct {
		fusion
		dst, x, routing compute.Tensor
		experts         compute.Experts
		gate            *gating // of the shared experts' results if the kernel also multiplies by it
	}
	expertsAdd struct {
		fusion
		dst, h, routing compute.Tensor
		experts         compute.Experts
	}
)

// collector implements the operations of compute.Step by collecting them. The next step reuses
// their memory.
type collector struct {
	collected []call
	split     bool             // the next operation gets splitBefore
	operands  []compute.Weight // the weights of products
	rows      []int32          // the rows of gathers

	embeddings    []embedding
	gathers       []gather
	norms         []norm
	affines       []affine
	gatings       []gating
	activatings   []activating
	softCaps      []softCap
	tops          []top
	drawings      []drawing
	products      []product
	gatedProducts []gatedProduct
	ropeStores    []ropeStore
	latents       []latents
	absorbs       []absorb
	attentions    []attention
	shortConvs    []shortConv
	expands       []expand
	routes        []route
	gatedExperts  []gatedExperts
	expertsAdds   []expertsAdd

	stateOperations
}

// call is an operation of a step. With splitBefore, the device may split a long step before it.
type call struct {
	operation
	splitBefore bool
}

func (c *collector) reset() {
	*c = collector{
		collected: c.collected[:0], operands: c.operands[:0], rows: c.rows[:0], embeddings: c.embeddings[:0], gathers: c.gathers[:0], norms: c.norms[:0],
		affines: c.affines[:0], gatings: c.gatings[:0], activatings: c.activatings[:0], softCaps: c.softCaps[:0], tops: c.tops[:0], drawings: c.drawings[:0], products: c.products[:0], gatedProducts: c.gatedProducts[:0], ropeStores: c.ropeStores[:0],
		latents: c.latents[:0], absorbs: c.absorbs[:0], attentions: c.attentions[:0], shortConvs: c.shortConvs[:0], expands: c.expands[:0], routes: c.routes[:0],
		gatedExperts: c.gatedExperts[:0], expertsAdds: c.expertsAdds[:0], stateOperations: c.stateOperations.reset(),
	}
}

// collect appends an operation to the list of its kind and to the step. When a list grows, earlier
// operations of the step stay in its old memory.
func collect[T any, P interface {
	*T
	operation
}](c *collector, kind *[]T, op T) {
	*kind = append(*kind, op)
	c.collected = append(c.collected, call{P(&(*kind)[len(*kind)-1]), c.split})
	c.split = false
}

// hold copies values to a list and returns the copy, since the caller may reuse the values.
func hold[T any](list *[]T, values ...T) []T {
	first := len(*list)
	*list = append(*list, values...)
	return (*list)[first:len(*list):len(*list)]
}

func (c *collector) Embed(dst compute.Tensor, table compute.Weight) {
	collect(c, &c.embeddings, embedding{dst, table})
}

func (c *collector) Gather(dst, src compute.Tensor, rows []int32) {
	collect(c, &c.gathers, gather{dst, src, hold(&c.rows, rows...)})
}

func (c *collector) RMSNorm(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	collect(c, &c.norms, norm{dst: dst, src: src, gain: gain, eps: eps})
}

func (c *collector) RMSNormAdd(dst, src compute.Tensor, gain compute.Weight, eps float32) {
	collect(c, &c.norms, norm{dst: dst, src: src, gain: gain, eps: eps, add: true})
}

func (c *collector) Affine(t compute.Tensor, scale float32, bias compute.Weight) {
	collect(c, &c.affines, affine{t, scale, bias})
}

func (c *collector) Gate(dst, gate compute.Tensor) {
	collect(c, &c.gatings, gating{dst: dst, gate: gate})
}

func (c *collector) SoftCap(t compute.Tensor, limit float32) {
	collect(c, &c.softCaps, softCap{t, limit})
}

func (c *collector) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	collect(c, &c.activatings, activating{dst, gate, up, act})
}

func (c *collector) Top(dst, logits compute.Tensor, k int) { collect(c, &c.tops, top{dst, logits, k}) }

func (c *collector) MatMul(dst, x compute.Tensor, ws ...compute.Weight) {
	collect(c, &c.products, product{dst: dst, x: x, weights: hold(&c.operands, ws...)})
}

func (c *collector) MatMulAdd(dst, x compute.Tensor, w compute.Weight) {
	collect(c, &c.products, product{dst: dst, x: x, weights: hold(&c.operands, w), add: true})
}

func (c *collector) GatedMatMul(dst, x compute.Tensor, gate, up compute.Weight, act compute.Activation) {
	collect(c, &c.gatedProducts, gatedProduct{dst: dst, x: x, gate: gate, up: up, activation: act})
}

func (c *collector) RopeStore(qkv compute.Tensor, proj compute.Projection, shape compute.AttentionShape, table compute.Rope, kv compute.Cache, layer int) {
	r, _ := table.(*rope)
	collect(c, &c.ropeStores, ropeStore{qkv, proj, shape, r, kv.(*cache), layer})
}

func (c *collector) Latents(dst, t compute.Tensor, qGain, kvGain compute.Weight, eps float32, table compute.Rope, kv compute.Cache, layer int) {
	q, _ := qGain.(*weight)
	collect(c, &c.latents, latents{
		dst: dst, t: t, qGain: q, kvGain: kvGain.(*weight), eps: eps, rope: table.(*rope), cache: kv.(*cache), layer: layer,
	})
}

func (c *collector) Absorb(dst, q compute.Tensor, kb compute.Weight, table compute.Rope) {
	collect(c, &c.absorbs, absorb{dst, q, kb, table.(*rope)})
}

func (c *collector) Attention(dst, q compute.Tensor, shape compute.AttentionShape, kv compute.Cache, layer int) {
	collect(c, &c.attentions, attention{dst: dst, q: q, shape: shape, cache: kv.(*cache), layer: layer})
}

func (c *collector) ShortConv(factor, b, x compute.Tensor, w compute.Weight, shape compute.AttentionShape, kv compute.Cache, layer int) {
	collect(c, &c.shortConvs, shortConv{factor, b, x, w, shape, kv.(*cache), layer})
}

func (c *collector) Expand(dst, ctx compute.Tensor, vb compute.Weight) {
	collect(c, &c.expands, expand{dst: dst, ctx: ctx, vb: vb})
}

func (c *collector) Route(dst, x compute.Tensor, router, bias compute.Weight, shape compute.RouteShape) {
	collect(c, &c.routes, route{dst: dst, x: x, router: router, bias: bias, shape: shape})
}

func (c *collector) GatedExperts(dst, x, routing compute.Tensor, e compute.Experts) {
	collect(c, &c.gatedExperts, gatedExperts{dst: dst, x: x, routing: routing, experts: e})
}

func (c *collector) ExpertsAdd(dst, h, routing compute.Tensor, e compute.Experts) {
	collect(c, &c.expertsAdds, expertsAdd{dst: dst, h: h, routing: routing, experts: e})
}
