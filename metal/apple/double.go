package apple

// sendDoubleABI0 is the address of sendDouble in double_*.s: a C function of an object, a selector and the address of
// objc_msgSend, that sends the message and returns the bits of the double that it is answered with.
//
// It is there because purego.SyscallN returns the integer registers alone, where a double comes back in d0 (xmm0). The other
// ways are purego.RegisterFunc, which allocates on each call, and key-value coding, which makes two objects for a number.
var sendDoubleABI0 uintptr
