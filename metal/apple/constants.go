package apple

// Values of Metal's and Foundation's enumerations, with Apple's names.
const (
	utf8Encoding = 4 // NSUTF8StringEncoding

	familyApple1   = 1001 // MTLGPUFamilyApple1; the M5 is Apple10, which is 1010
	familyApple7   = 1007 // MTLGPUFamilyApple7, the family of the M1 and the first with simdgroup matrices
	maxAppleFamily = 1016 // higher than any family that exists today, so that future ones are recognised

	storageShared  = 0x00 // MTLResourceStorageModeShared
	storagePrivate = 0x20 // MTLResourceStorageModePrivate

	languageVersion = 3<<16 | 1 // MTLLanguageVersion3_1, of macOS 14

	mathSafe    = 0 // MTLMathModeSafe
	mathRelaxed = 1 // MTLMathModeRelaxed
	mathFast    = 2 // MTLMathModeFast

	mathFunctionsPrecise = 1 // MTLMathFloatingPointFunctionsPrecise

	typeUInt = 33 // MTLDataTypeUInt

	dispatchConcurrent = 1 // MTLDispatchTypeConcurrent
	barrierBuffers     = 1 // MTLBarrierScopeBuffers

	statusCompleted = 4 // MTLCommandBufferStatusCompleted
	errorMemory     = 8 // MTLCommandBufferErrorOutOfMemory

	captureToFile = 2 // MTLCaptureDestinationGPUTraceDocument
)

// Limits of all families from Apple7 on. They are not properties of MTLDevice; see Apple's Metal
// feature set tables.
const (
	maxThreads = 1024    // maximum threads of a threadgroup
	maxBuffers = 31      // maximum number of buffers that are bound to a kernel
	maxArgs    = 4 << 10 // maximum bytes of setBytes
)
