package apple

import "time"

// idleTime is the time without submissions after which residency is requested again. Meanwhile, the
// system may have ended the residency; Metal does not document when that happens.
const idleTime = time.Second

// residency is a residency set with all buffers, so that the system neither checks them at every
// submission nor evicts them between submissions. On systems without residency sets (before macOS
// 15) and on GPUs that cannot have one, such as those of virtual machines, it is the zero value,
// whose methods do nothing.
type residency struct {
	set     id
	changed bool      // whether the set has changed since it was committed
	used    time.Time // time of the last submission
}

// open makes the set and reports whether there is one. Work runs without it too.
func (r *residency) open(d *Device) bool {
	if !d.objc.responds(d.device, deviceNewResidencySet) {
		return false
	}
	o := d.objc
	descriptor := o.instance("MTLResidencySetDescriptor")
	defer o.release(&descriptor)
	r.set = o.own(id(o.send(d.device, deviceNewResidencySet, uintptr(descriptor), o.failurePointer())))
	if r.set == 0 {
		return false
	}
	r.attach(d)
	return true
}

func (r *residency) attach(d *Device) {
	if r.set != 0 {
		d.objc.send(d.queue, queueAddResidencySet, uintptr(r.set))
	}
}

func (r *residency) add(d *Device, buffer id) {
	if r.set != 0 {
		d.objc.send(r.set, residentAdd, uintptr(buffer))
		r.changed = true
	}
}

func (r *residency) remove(d *Device, buffer id) {
	if r.set != 0 {
		d.objc.send(r.set, residentRemove, uintptr(buffer))
		r.changed = true
	}
}

// commit makes changes of the set effective. After a change, and after idleTime without
// submissions, it requests residency. It is called before each submission.
func (r *residency) commit(d *Device) {
	if r.set == 0 {
		return
	}
	now := time.Now()
	if r.changed {
		d.objc.send(r.set, residentCommit)
	}
	if r.changed || now.Sub(r.used) > idleTime {
		d.objc.send(r.set, residentRequest)
	}
	r.changed, r.used = false, now
}

func (r *residency) close(d *Device) {
	if r.set == 0 {
		return
	}
	d.objc.send(r.set, residentEnd)
	d.objc.send(d.queue, queueRemoveResidencySet, uintptr(r.set))
	d.objc.release(&r.set)
}
