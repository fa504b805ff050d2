package apple

// Values of Metal's and Foundation's enumerations, by the names that Apple gives them.
const (
	utf8Encoding = 4 // NSUTF8StringEncoding

	familyApple1    = 1001 // MTLGPUFamilyApple1; Apple10, of the M5, is 1010
	familyApple7    = 1007 // of the M1, the first with simdgroup matrices
	mostAppleFamily = 1016 // asked for downwards, so that later ones are found

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

// Limits that hold for all of Apple's families from Apple7 on, and that Metal has no integer property for.
const (
	mostThreads = 1024    // of a threadgroup
	mostBuffers = 31      // bound to a kernel
	mostArgs    = 4 << 10 // bytes of setBytes
)
