package apple

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// id is an object or a class of the Objective-C runtime; 0 is nil.
type id uintptr

// objc is the Objective-C runtime for one thread. It sends a message by calling objc_msgSend with
// the arguments as words in registers. This is correct for integers, pointers, an NSRange (two
// words) and, on arm64, the address of a struct of more than 16 bytes. The driver passes no other
// arguments. sendDouble is for messages that return a double.
type objc struct {
	runtime  uintptr // handle of the runtime's library
	metal    uintptr // handle of Metal's library
	msgSend  uintptr
	retainFn uintptr
	freeFn   uintptr
	poolPush uintptr
	poolPop  uintptr
	class    uintptr // objc_getClass
	register uintptr // sel_registerName

	selectors [messageCount]uintptr
	frame     [8]uintptr // the arguments of a call
	text      []byte     // the C string of the current call
	failure   id         // the last NSError; messages write to it
	owned     int        // number of references that the driver holds; Close returns an error unless it is 0
}

// newObjC opens libraries. The first is the library of the runtime, the last is Metal's.
func newObjC(libraries []string) (*objc, error) {
	o := &objc{}
	for i, path := range libraries {
		handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		if i == 0 {
			o.runtime = handle
		}
		o.metal = handle
	}
	for name, at := range map[string]*uintptr{
		"objc_msgSend": &o.msgSend, "objc_retain": &o.retainFn, "objc_release": &o.freeFn, "objc_getClass": &o.class,
		"sel_registerName": &o.register, "objc_autoreleasePoolPush": &o.poolPush, "objc_autoreleasePoolPop": &o.poolPop,
	} {
		var err error
		if *at, err = purego.Dlsym(o.runtime, name); err != nil {
			return nil, fmt.Errorf("find %s in %s: %w", name, libraries[0], err)
		}
	}
	for i := range messages {
		o.selectors[i] = o.call(o.register, o.cString(messages[i].selector))
	}
	return o, nil
}

// forThread returns a copy of the runtime for use on another thread. The copy owns no references.
func (o *objc) forThread() *objc {
	return &objc{
		runtime: o.runtime, metal: o.metal, msgSend: o.msgSend, retainFn: o.retainFn, freeFn: o.freeFn, poolPush: o.poolPush,
		poolPop: o.poolPop, class: o.class, register: o.register, selectors: o.selectors,
	}
}

// call calls a C function. Arguments that are addresses must point to live memory outside the Go
// stack.
func (o *objc) call(function uintptr, words ...uintptr) uintptr {
	n := copy(o.frame[:], words)
	result, _, _ := purego.SyscallN(function, o.frame[:n]...)
	return result
}

// send sends a message with its arguments. Sending to nil returns 0.
func (o *objc) send(to id, m message, words ...uintptr) uintptr {
	o.frame[0], o.frame[1] = uintptr(to), o.selectors[m]
	n := 2 + copy(o.frame[2:], words)
	result, _, _ := purego.SyscallN(o.msgSend, o.frame[:n]...)
	return result
}

// sendBool sends a message that returns a BOOL, of which only the lowest byte is defined.
func (o *objc) sendBool(to id, m message, words ...uintptr) bool {
	return o.send(to, m, words...)&0xff != 0
}

// sendDouble sends a message without arguments that returns a double.
func (o *objc) sendDouble(to id, m message) float64 {
	o.frame[0], o.frame[1], o.frame[2] = uintptr(to), o.selectors[m], o.msgSend
	bits, _, _ := purego.SyscallN(sendDoubleABI0, o.frame[:3]...)
	return *(*float64)(unsafe.Pointer(&bits))
}

// responds reports whether an object has a method. The driver checks this before it calls methods
// that only newer systems have.
func (o *objc) responds(to id, m message) bool {
	return o.sendBool(to, objectResponds, o.selectors[m])
}

func (o *objc) classOf(name string) id { return id(o.call(o.class, o.cString(name))) }

// instance makes an object of a class. The caller must release it.
func (o *objc) instance(class string) id {
	return o.own(id(o.send(id(o.send(o.classOf(class), objectAlloc)), objectInit)))
}

// own counts a reference that the driver must release. The results of alloc, new... and retain are
// such references.
func (o *objc) own(object id) id {
	if object != 0 {
		o.owned++
	}
	return object
}

// retain takes a reference, so that an object outlives its autorelease pool.
func (o *objc) retain(object id) id { return o.own(id(o.call(o.retainFn, uintptr(object)))) }

// release releases an owned reference and sets it to 0. It does nothing if the reference is 0.
func (o *objc) release(object *id) {
	if *object == 0 {
		return
	}
	o.call(o.freeFn, uintptr(*object))
	o.owned--
	*object = 0
}

// cString returns s as a C string, valid until the next call.
func (o *objc) cString(s string) uintptr {
	o.text = append(append(o.text[:0], s...), 0)
	return uintptr(unsafe.Pointer(&o.text[0]))
}

// string makes an NSString that the autorelease pool owns.
func (o *objc) string(s string) id {
	return id(o.send(o.classOf("NSString"), stringWithCString, o.cString(s), utf8Encoding))
}

func (o *objc) goString(s id) string {
	text := pointer(o.send(s, stringUTF8))
	if text == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(text, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(text), n))
}

// failurePointer clears the last NSError and returns the address that receives the next NSError.
func (o *objc) failurePointer() uintptr {
	o.failure = 0
	return uintptr(unsafe.Pointer(&o.failure))
}

func (o *objc) failureText() string {
	text := o.goString(id(o.send(o.failure, errorDescription)))
	if text == "" {
		return "Metal returned no description of the error"
	}
	return text
}

// pointer returns an address in C's memory as a pointer.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
