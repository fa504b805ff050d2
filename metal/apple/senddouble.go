package apple

// sendDoubleABI0 is the address of sendDouble in senddouble_*.s. This C function takes an object, a
// selector and the address of objc_msgSend, sends the message and returns the bits of the double
// that the method returns.
//
// purego.SyscallN cannot do this, since it returns only integer registers, and a double is returned
// in d0 (xmm0). purego.RegisterFunc would allocate on each call, and key-value coding would make
// two objects per number.
var sendDoubleABI0 uintptr
