package apple

import (
	"errors"
	"fmt"
)

// StartCapture implements metal.Device. The path must end in .gputrace, and the file must not
// exist.
func (d *Device) StartCapture(path string) error {
	if d.closed {
		return fmt.Errorf("capture the GPU's work to %s: %w", path, ErrClosed)
	}
	if d.capturing {
		return fmt.Errorf("capture the GPU's work to %s: another capture is running", path)
	}
	var err error
	d.thread.do(func() { err = d.startCapture(path) })
	if err != nil {
		return fmt.Errorf("capture the GPU's work to %s: %w", path, err)
	}
	d.capturing = true
	return nil
}

func (d *Device) startCapture(path string) error {
	o := d.objc
	manager := id(o.send(o.classOf("MTLCaptureManager"), captureShared))
	if !o.sendBool(manager, captureSupports, captureToFile) {
		return errors.New("captures are not enabled: start the program with MTL_CAPTURE_ENABLED=1 in the environment")
	}
	descriptor := o.instance("MTLCaptureDescriptor")
	defer o.release(&descriptor)
	o.send(descriptor, captureSetObject, uintptr(d.device))
	o.send(descriptor, captureSetDestination, captureToFile)
	name := o.string(path)
	o.send(descriptor, captureSetURL, o.send(o.classOf("NSURL"), urlWithPath, uintptr(name)))
	if !o.sendBool(manager, captureStart, uintptr(descriptor), o.failurePointer()) {
		return errors.New(o.failureText())
	}
	return nil
}

// StopCapture implements metal.Device.
func (d *Device) StopCapture() error {
	if d.closed {
		return fmt.Errorf("end a capture: %w", ErrClosed)
	}
	if !d.capturing {
		return errors.New("end a capture: no capture is running")
	}
	d.thread.do(func() { d.objc.send(id(d.objc.send(d.objc.classOf("MTLCaptureManager"), captureShared)), captureStop) })
	d.capturing = false
	return nil
}
