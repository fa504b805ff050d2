package apple

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// id is an object or a class of the Objective-C runtime; 0 is nil.
type id uintptr

// objc is the Objective-C runtime as one thread uses it. A message is a raw call of objc_msgSend with words in registers:
// right for integers, pointers, NSRange as two words and, on arm64, for structs above 16 bytes by their address, which is
// all that this driver passes. Floating-point results come back by sendDouble.
type objc struct {
	runtime  uintptr // its library
	metal    uintptr // Metal's
	msgSend  uintptr
	retainFn uintptr
	freeFn   uintptr
	poolPush uintptr
	poolPop  uintptr
	class    uintptr // objc_getClass
	register uintptr // sel_registerName

	selectors [messageCount]uintptr
	frame     [8]uintptr // the words of a call
	text      []byte     // a C string while it is passed
	failure   id         // what Metal writes an NSError to
	owned     int        // references held: the ledger that Close finds at zero
}

// newObjC opens libraries, the first of them the runtime and the last Metal.
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

// call calls a C function. Words that are addresses have to be of memory that is kept alive and is no stack.
func (o *objc) call(function uintptr, words ...uintptr) uintptr {
	n := copy(o.frame[:], words)
	result, _, _ := purego.SyscallN(function, o.frame[:n]...)
	return result
}

// send sends a message. What m's method is declared with are the words after it; sending to nil returns 0.
func (o *objc) send(to id, m message, words ...uintptr) uintptr {
	o.frame[0], o.frame[1] = uintptr(to), o.selectors[m]
	n := 2 + copy(o.frame[2:], words)
	result, _, _ := purego.SyscallN(o.msgSend, o.frame[:n]...)
	return result
}

// sendBool sends a message that is answered with a BOOL, of which only the lowest byte counts.
func (o *objc) sendBool(to id, m message, words ...uintptr) bool {
	return o.send(to, m, words...)&0xff != 0
}

// sendDouble sends a message without arguments that is answered with a double.
func (o *objc) sendDouble(to id, m message) float64 {
	o.frame[0], o.frame[1], o.frame[2] = uintptr(to), o.selectors[m], o.msgSend
	bits, _, _ := purego.SyscallN(sendDoubleABI0, o.frame[:3]...)
	return *(*float64)(unsafe.Pointer(&bits))
}

// responds tells whether an object has a method: newer systems' are asked for before they are used.
func (o *objc) responds(to id, m message) bool {
	return o.sendBool(to, objectResponds, o.selectors[m])
}

// classOf returns a class by its name, or 0.
func (o *objc) classOf(name string) id { return id(o.call(o.class, o.cString(name))) }

// instance makes an object that is owned.
func (o *objc) instance(class string) id {
	return o.own(id(o.send(id(o.send(o.classOf(class), objectAlloc)), objectInit)))
}

// own notes a reference that a message has handed over: those whose names start with alloc and new, and retain.
func (o *objc) own(object id) id {
	if object != 0 {
		o.owned++
	}
	return object
}

// retain keeps an object beyond its autorelease pool.
func (o *objc) retain(object id) id { return o.own(id(o.call(o.retainFn, uintptr(object)))) }

// release gives an owned reference back and forgets it. There may be none.
func (o *objc) release(object *id) {
	if *object == 0 {
		return
	}
	o.call(o.freeFn, uintptr(*object))
	o.owned--
	*object = 0
}

// cString is text that C can read, until the next is made.
func (o *objc) cString(s string) uintptr {
	o.text = append(append(o.text[:0], s...), 0)
	return uintptr(unsafe.Pointer(&o.text[0]))
}

// string makes an NSString that the autorelease pool owns.
func (o *objc) string(s string) id {
	return id(o.send(o.classOf("NSString"), stringWithCString, o.cString(s), utf8Encoding))
}

// goString copies an NSString.
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

// failurePointer is where a message puts its NSError. It is cleared.
func (o *objc) failurePointer() uintptr {
	o.failure = 0
	return uintptr(unsafe.Pointer(&o.failure))
}

// failureText is what the last NSError says.
func (o *objc) failureText() string {
	text := o.goString(id(o.send(o.failure, errorDescription)))
	if text == "" {
		return "Metal gives no reason"
	}
	return text
}

// pointer is an address of C's memory.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
