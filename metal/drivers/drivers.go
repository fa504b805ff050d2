// Package drivers is the table of the drivers of metal.Device. The choice of a backend, the check of the setting "backend"
// and doctor all walk through it, so that a new driver takes a package and a row here.
package drivers

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/apple"
	"github.com/ingot-run/ingot/metal/cuda"
	"github.com/ingot-run/ingot/metal/emulator"
)

// Driver is a row of the table.
type Driver struct {
	Name string // of the backend in settings, and Info.Driver of its devices
	// Auto reports whether the driver runs a GPU that may be chosen without being named. The others are for tests, and their
	// kernels may take minutes to compile.
	Auto     bool
	Note     string // warns users about drivers for tests; else empty
	Captures bool   // reports whether StartCapture works
	// Open opens a device by its number, from 0 on. Its error does not name the driver. It wraps metal.ErrUnsupported if this
	// machine has no GPU that the kernels run on.
	Open func(number int) (metal.Device, error)
}

// table has the drivers in the order in which they are tried.
var table = []Driver{
	{Name: "metal", Auto: true, Captures: true, Open: only(func() (metal.Device, error) { return device(apple.Open()) })},
	{Name: "cuda", Auto: true, Open: func(number int) (metal.Device, error) { return device(cuda.Open(number)) }},
	{
		Name: "emulator", Note: "for tests: runs the GPU's kernels on the processor, slowly",
		Open: only(func() (metal.Device, error) { return device(emulator.Open(emulator.Options{})) }),
	},
}

// only opens the device of a driver that has one.
func only(open func() (metal.Device, error)) func(number int) (metal.Device, error) {
	return func(number int) (metal.Device, error) {
		dev, err := open()
		if err == nil && number != 0 {
			return nil, errors.Join(fmt.Errorf("it has one GPU, number 0: remove the device number %d", number), dev.Close())
		}
		return dev, err
	}
}

// device returns a driver's device, or a nil interface with its error.
func device[D metal.Device](d D, err error) (metal.Device, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// All returns the drivers, those that may be chosen without being named first.
func All() []Driver { return slices.Clone(table) }

// Find returns the driver with a name; ok is false if there is none.
func Find(name string) (d Driver, ok bool) {
	i := slices.IndexFunc(table, func(d Driver) bool { return d.Name == name })
	if i < 0 {
		return Driver{}, false
	}
	return table[i], true
}

// Names returns the names of the drivers with the given value of Auto.
func Names(auto bool) (names []string) {
	for i := range table {
		if table[i].Auto == auto {
			names = append(names, table[i].Name)
		}
	}
	return names
}

// Open opens a device of the named driver by its number.
func Open(name string, number int) (metal.Device, error) {
	d, ok := Find(name)
	if !ok {
		return nil, fmt.Errorf("open a GPU: there is no driver %q", name)
	}
	dev, err := d.Open(number)
	return dev, named(d.Name, err)
}

// named adds the name of a backend to an error.
func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("backend %s: %w", name, err)
}

// OpenAuto opens the device of the first driver that may be chosen without being named and finds a GPU. If none does, the error
// wraps metal.ErrUnsupported and gives the reason of each. A GPU that is found and fails ends the search.
func OpenAuto(number int) (metal.Device, error) {
	var reasons []error
	for i := range table {
		if !table[i].Auto {
			continue
		}
		dev, err := table[i].Open(number)
		if !errors.Is(err, metal.ErrUnsupported) {
			return dev, named(table[i].Name, err)
		}
		reasons = append(reasons, named(table[i].Name, err))
	}
	return nil, errors.Join(reasons...)
}
