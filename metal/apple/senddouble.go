package apple

// sendDoubleABI0 is the address of sendDouble in senddouble_*.s. This C function takes an object, a selector and the address of
// objc_msgSend, sends the message and returns the bits of the double in its reply.
//
// purego.SyscallN cannot do this: it returns integer registers only, and a double is returned in d0 (xmm0). The alternatives are
// purego.RegisterFunc, which allocates on each call, and key-value coding, which makes two objects for a number.
var sendDoubleABI0 uintptr
