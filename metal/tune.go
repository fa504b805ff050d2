package metal

import "github.com/ingot-run/ingot/engine/gguf"

// GeometryName is what choices for the backend's device name it by.
func (b *Backend) GeometryName() string { return deviceName(b.device.Info()) }

// Choice is the whole choice of a kernel for weights or pages of a type and shape. inputs is 0 for tiles and attention.
func (b *Backend) Choice(kernel string, t gguf.Type, in, out, inputs int) Choice {
	c := b.kernels.geometry.find(kernel, t, in, out, inputs)
	c.Device, c.Kernel, c.Type, c.In, c.Out = b.GeometryName(), kernel, t.String(), in, out
	return c
}

// Use has the backend take another geometry from the next step on: g with the choices that come with the program. It may
// name kernels that the backend was opened with, by Options.Geometry. Where it is refused, the backend stays good for
// use.
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
