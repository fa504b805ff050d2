package metal

import "github.com/ingot-run/ingot/engine/gguf"

// Choice returns the present geometry of a kernel for weights or cache pages of the given type and
// shape. inputs is a value of Choice.Inputs; it is 0 for tiles and attention.
func (b *Backend) Choice(kernel string, t gguf.Type, in, out, inputs int) Choice {
	c := b.kernels.geometry.find(kernel, t, in, out, inputs)
	c.Device, c.Kernel, c.Type, c.In, c.Out = deviceName(b.device.Info()), kernel, t.String(), in, out
	return c
}

// Use sets the geometry from the next step on: DefaultGeometry with the choices of g added. It can
// choose only kernels that were compiled for Options.Geometry. After an error, the backend remains
// usable.
func (b *Backend) Use(g Geometry) error {
	if err := b.kernels.use(g); err != nil {
		return err
	}
	for _, w := range b.weights {
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
