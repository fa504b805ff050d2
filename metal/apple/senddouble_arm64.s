#include "textflag.h"

GLOBL ·sendDoubleABI0(SB), NOPTR|RODATA, $8
DATA ·sendDoubleABI0(SB)/8, $sendDouble(SB)

// Called with C's convention: R0 object, R1 selector, R2 objc_msgSend. R29 (FP) and R30 (LR) are saved as a pair, as the platform requires.
TEXT sendDouble(SB), NOSPLIT|NOFRAME, $0
	STP.W (R29, R30), -16(RSP)
	MOVD  RSP, R29
	MOVD  R2, R10
	MOVD  ZR, R2
	BL    (R10)
	FMOVD F0, R0
	LDP.P 16(RSP), (R29, R30)
	RET
