package apple

import (
	"errors"
	"fmt"
)

// StartCapture implements metal.Device. The file's name ends in .gputrace, and there is none of this name yet.
func (d *Device) StartCapture(path string) error {
	if d.closed {
		return fmt.Errorf("capture the GPU's work to %s: %w", path, ErrClosed)
	}
	if d.capturing {
		return fmt.Errorf("capture the GPU's work to %s: a capture is under way", path)
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
		return errors.New("files of captures are not written unless MTL_CAPTURE_ENABLED=1 is in the environment when the program starts")
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
		return errors.New("end a capture: none is under way")
	}
	d.thread.do(func() { d.objc.send(id(d.objc.send(d.objc.classOf("MTLCaptureManager"), captureShared)), captureStop) })
	d.capturing = false
	return nil
}
