#include "textflag.h"

GLOBL ·sendDoubleABI0(SB), NOPTR|RODATA, $8
DATA ·sendDoubleABI0(SB)/8, $sendDouble(SB)

// Called with C's convention: DI object, SI selector, DX objc_msgSend. The push keeps the stack aligned to 16 bytes.
TEXT sendDouble(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BP
	MOVQ  SP, BP
	MOVQ  DX, R10
	XORL  DX, DX
	XORL  AX, AX
	CALL  R10
	MOVQ  X0, AX
	POPQ  BP
	RET
