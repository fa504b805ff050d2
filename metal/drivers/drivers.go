// Package drivers is the table of the drivers of metal.Device. The choice of a backend, the check
// of the setting "backend" and ingot doctor use it. In Go code, a new driver needs only its package
// and a row in this table.
package drivers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/apple"
	"github.com/ingot-run/ingot/metal/cuda"
	"github.com/ingot-run/ingot/metal/emulator"
)

// Driver is a row of the table.
type Driver struct {
	Name string // name of the backend in settings, and Info.Driver of the driver's devices
	// Auto reports whether the driver can be chosen automatically. The other drivers are for tests,
	// and compiling their kernels can take minutes.
	Auto     bool
	Note     string // warning to users of a driver for tests; empty for other drivers
	Captures bool   // whether StartCapture works
	// Open opens a device by its number, counted from 0. The error does not name the driver. It
	// wraps metal.ErrUnsupported if this machine has no GPU that can run the kernels.
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

// only returns the Open function of a driver that has only one device, number 0.
func only(open func() (metal.Device, error)) func(number int) (metal.Device, error) {
	return func(number int) (metal.Device, error) {
		dev, err := open()
		if err == nil && number != 0 {
			return nil, errors.Join(fmt.Errorf("there is only one GPU, number 0: give --device 0 instead of %d", number), dev.Close())
		}
		return dev, err
	}
}

// device returns a driver's device as an interface. If there is an error, the interface is nil.
func device[D metal.Device](d D, err error) (metal.Device, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// All returns the drivers. Drivers that can be chosen automatically come first.
func All() []Driver { return slices.Clone(table) }

// Find returns the driver with a name. ok is false if there is none.
func Find(name string) (d Driver, ok bool) {
	i := slices.IndexFunc(table, func(d Driver) bool { return d.Name == name })
	if i < 0 {
		return Driver{}, false
	}
	return table[i], true
}

// Names returns the names of the drivers that can be chosen automatically or, if auto is false, of
// the other drivers.
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
		return nil, fmt.Errorf("open a GPU: there is no driver %q: use %s", name, strings.Join(append(Names(true), Names(false)...), ", "))
	}
	dev, err := d.Open(number)
	return dev, named(d.Name, err)
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("backend %s: %w", name, err)
}

// OpenAuto tries the drivers that can be chosen automatically, in order. It opens the device with
// the given number of the first driver that finds a GPU. If no driver finds one, the error wraps
// metal.ErrUnsupported and contains each driver's reason. If a driver finds a GPU but cannot open
// it, OpenAuto returns its error and tries no other driver.
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
