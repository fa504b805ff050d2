package metal

// nvidiaStates has the kernels of recurrent layers.
type nvidiaStates struct{ convolveStep, deltaStep, gatedNorm Pipeline }

const (
	// stateDim is the number of values of a key, and of a value, of a head that delta_step takes.
	stateDim = 128
	// maxDeltaRows is the maximum number of rows of a step, prompts included, for which delta_step
	// is used. It also computes the norm. For few rows, this saves a kernel. Only two of its
	// threadgroups run on a multiprocessor, so for many rows the portable kernel reads matrices
	// faster.
	maxDeltaRows = 32
	// stateTaps is the number of rows of a convolution that convolve_step takes.
	stateTaps = 4
	// stateWarps is the number of simdgroups per threadgroup of delta_step.
	stateWarps = 8
)

// The argument structs of recurrence.cu.
type (
	convolveStepArgs struct{ cols, xStride, dstStride, room, biased uint32 }
	headNormArgs     struct {
		runs, xStride, gateStride, dstStride uint32
		eps                                  float32
	}
	deltaArgs struct {
		stride, gateStride, dstStride, keyHeads, heads, grouped, early, normed, factorStride, quantised uint32
		eps, normEps                                                                                    float32
	}
)

const nvidiaStateFile = "recurrence.cu"

func (n *nvidia) stateSources() ([]Source, error) {
	general, err := n.general.stateSources()
	if err != nil {
		return nil, err
	}
	src, err := nvidiaSource(nvidiaStateFile)
	return append(general, src), err
}

func (n *nvidia) makeStates() error {
	if err := n.general.makeStates(); err != nil || n.deltaStep != 0 {
		return err
	}
	var made nvidiaStates
	err := makeFilePipelines(n.device, n.mode, nvidiaStateFile,
		map[string]*Pipeline{"convolve_step": &made.convolveStep, "delta_step": &made.deltaStep, "gated_norm_quantise": &made.gatedNorm})
	if err == nil {
		n.nvidiaStates = made
	}
	return err
}

// nvidia records a GatedNorm, unless the kernel of a DeltaNet computes it. If the next operation
// multiplies the result, the kernel quantises it.
func (o *gatedNorm) nvidia(n *nvidia) {
	made := quantisedRows(o.dst, o.dst.Cols, 1)
	if !o.quantises || made.bytes() > n.activations.bytes {
		o.portable(n.general)
		return
	}
	const simdgroups = 4 // each takes a run
	a := headNormArgs{
		runs: uint32(o.dst.Cols / stateDim), xStride: uint32(o.x.Stride), gateStride: uint32(o.gate.Stride), dstStride: uint32(o.dst.Stride), eps: o.norm.Eps,
	}
	record(n.step, "gated_norm", n.gatedNorm, grid{x: (int(a.runs) + simdgroups - 1) / simdgroups, y: o.dst.Rows, simdgroups: simdgroups}, &a,
		at(o.x), at(o.gate), bind(o.norm.Gain, Binding{}), into(o.dst), n.activations.read())
	n.hold(quantisedRows(o.dst, o.dst.Cols, 1), 0)
}

// normsHeads reports whether gated_norm_quantise and delta_step compute a norm.
func (n *nvidia) normsHeads(o *gatedNorm) bool {
	return n.gatedNorm != 0 && o.norm.Dims == stateDim && !o.norm.GateFirst && weightOf(o.norm.Gain).in == stateDim
}

// nvidia records a Convolve. It leaves steps with prompts or drafts to the portable kernel.
func (o *convolution) nvidia(n *nvidia) {
	const simdgroups = 4
	shape, lists := &o.states.shape, n.listStates()
	if !lists.single || lists.chunked > 0 || shape.ConvRows != stateTaps-1 || shape.ConvCols%4 != 0 {
		o.portable(n.general)
		return
	}
	a := convolveStepArgs{
		cols: uint32(shape.ConvCols), xStride: uint32(o.x.Stride), dstStride: uint32(o.dst.Stride), room: uint32(shape.ConvRows + shape.Drafts),
		biased: flag(o.bias != nil),
	}
	each := 4 * 32 * simdgroups
	record(n.step, "convolve", n.convolveStep, grid{x: (shape.ConvCols + each - 1) / each, y: lists.convolved.count, simdgroups: simdgroups}, &a,
		at(o.x), bind(o.w, Binding{}), bind(o.bias, at(o.x)), lists.convolved.Binding, Binding{Buffer: o.states.inputs[o.layer]}, into(o.dst))
}

// stepsDelta reports whether delta_step computes the generated rows of a DeltaNet: one row of each
// sequence, with matrices of the usual size.
func (n *nvidia) stepsDelta(o *deltaRule) bool {
	s := &o.states.shape
	return s.KeyDim == stateDim && s.ValueDim == stateDim && n.listStates().single && o.dst.Rows <= maxDeltaRows
}

// normsDelta reports whether the kernel of a DeltaNet also computes the operation after it, a
// GatedNorm of the result. If so, it lets it do so.
func (n *nvidia) normsDelta(prior, op operation) bool {
	delta, ok := prior.(*deltaRule)
	norm, norms := op.(*gatedNorm)
	if !ok || !norms || !n.stepsDelta(delta) || n.listStates().chunked > 0 {
		return false
	}
	if norm.x != delta.dst || norm.dst != delta.dst || !n.normsHeads(norm) {
		return false
	}
	delta.norm = norm
	return true
}

func (o *deltaRule) nvidia(n *nvidia) {
	if !n.stepsDelta(o) {
		o.portable(n.general)
		return
	}
	r, lists := o.recurrence(n.general), n.listStates()
	n.general.recurPrompts(&r, lists)
	if lists.generated.count == 0 {
		return
	}
	a := deltaArgs{
		stride: uint32(o.qkv.Stride), gateStride: uint32(o.gates.Stride), dstStride: uint32(o.dst.Stride), keyHeads: uint32(o.delta.KeyHeads),
		heads: uint32(o.states.shape.Heads), grouped: flag(o.delta.Grouped), early: flag(lists.chunked == 0), eps: o.delta.Eps,
	}
	dst, factors, gain := into(o.dst), at(o.gates), bind(o.delta.Bias, Binding{}) // bound, but not used without a norm
	if o.norm != nil {
		a.normed, a.factorStride, a.normEps = 1, uint32(o.norm.gate.Stride), o.norm.norm.Eps
		factors, gain = at(o.norm.gate), bind(o.norm.norm.Gain, gain)
	}
	packed := dst
	if o.quantises {
		packed = n.result(&o.fusion, &a.quantised, quantisedRows(o.dst, int(a.heads)*stateDim, 1))
	}
	g := grid{x: int(a.heads), y: lists.generated.count, simdgroups: stateWarps}
	record(n.step, "delta_step", n.deltaStep, g, &a, at(o.qkv), at(o.gates), bind(o.delta.Decay, Binding{}), bind(o.delta.Bias, Binding{}), lists.generated.Binding,
		r.matrices(), factors, gain, dst, packed)
}
