package metal

// Use has the backend take another geometry from the next step on: g with the choices that come with the program. It may
// name kernels that the backend was opened with, by Options.Geometry. Where it is refused, which leaves the backend good for
// use, the error wraps ErrGeometry.
func (b *Backend) Use(g Geometry) error {
	if err := b.kernels.use(g); err != nil {
		return err
	}
	for _, w := range b.weights {
		if w.kernels == nil { // a vector
			continue
		}
		made, err := b.kernels.forWeight(weightShape{w.kind, w.in, w.out})
		if err != nil {
			return err
		}
		w.kernels = made
	}
	for _, c := range b.caches {
		made, err := b.kernels.forPages(c.shape.Type)
		if err != nil {
			return err
		}
		c.kernels = made
	}
	return nil
}
