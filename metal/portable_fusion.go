package metal

// fuse decides which operations on one row share a kernel, before they are recorded: GatedExperts
// chooses the experts by the logits of the routing before it.
func (p *portable) fuse(operations []call) {
	for i := 1; i < len(operations); i++ {
		prior, routed := operations[i-1].operation.(*route)
		op, ok := operations[i].operation.(*gatedExperts)
		if !routed || !ok || prior.dst.Rows != 1 || !same(prior.dst, op.routing) {
			continue
		}
		w := weightOf(op.experts.Gate)
		if prior.choiceBytes()+forRows(w.kernels.gatedExperts, 1).room(w.in) <= threadgroupBytes {
			op.prior, prior.continued = prior, true
		}
	}
}
