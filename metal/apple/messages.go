package apple

// message is an index into messages.
type message int

// The messages that this driver sends.
const (
	objectAlloc message = iota
	objectInit
	objectResponds
	stringWithCString
	stringUTF8
	errorCode
	errorDescription
	arrayCount
	arrayObject
	dictionaryWith
	urlWithPath

	deviceName
	deviceSupportsFamily
	deviceWorkingSet
	deviceMaxBuffer
	deviceThreadgroupMemory
	deviceUnifiedMemory
	deviceAllocated
	deviceNewQueue
	deviceNewLibrary
	deviceNewPipeline
	deviceNewBuffer
	deviceNewResidencySet

	optionsSetLanguage
	optionsLanguage
	optionsSetMathMode
	optionsMathMode
	optionsSetMathFunctions
	optionsSetFastMath
	optionsFastMath
	optionsSetMacros

	libraryNewFunction
	constantsSet
	pipelineMaxThreads
	pipelineSimdWidth
	pipelineThreadgroupMemory
	bufferContents

	queueCommandBuffer
	queueAddResidencySet
	queueRemoveResidencySet

	commandsCompute
	commandsBlit
	commandsCommit
	commandsWait
	commandsStatus
	commandsError
	commandsStart
	commandsEnd

	encoderEnd
	encoderPushGroup
	encoderPopGroup
	computeSetPipeline
	computeSetBuffers
	computeSetBytes
	computeSetThreadgroupMemory
	computeBarrier
	computeDispatch
	blitCopy

	residentAdd
	residentRemove
	residentCommit
	residentRequest
	residentEnd

	captureShared
	captureSupports
	captureStart
	captureStop
	captureSetObject
	captureSetDestination
	captureSetURL

	messageCount
)

// messages has the selector of each message and the class or protocol under which Apple documents
// it.
var messages = [messageCount]struct{ class, selector string }{
	objectAlloc:       {"NSObject", "alloc"},
	objectInit:        {"NSObject", "init"},
	objectResponds:    {"NSObject", "respondsToSelector:"},
	stringWithCString: {"NSString", "stringWithCString:encoding:"},
	stringUTF8:        {"NSString", "UTF8String"},
	errorCode:         {"NSError", "code"},
	errorDescription:  {"NSError", "localizedDescription"},
	arrayCount:        {"NSArray", "count"},
	arrayObject:       {"NSArray", "objectAtIndex:"},
	dictionaryWith:    {"NSDictionary", "dictionaryWithObject:forKey:"},
	urlWithPath:       {"NSURL", "fileURLWithPath:"},

	deviceName:              {"MTLDevice", "name"},
	deviceSupportsFamily:    {"MTLDevice", "supportsFamily:"},
	deviceWorkingSet:        {"MTLDevice", "recommendedMaxWorkingSetSize"},
	deviceMaxBuffer:         {"MTLDevice", "maxBufferLength"},
	deviceThreadgroupMemory: {"MTLDevice", "maxThreadgroupMemoryLength"},
	deviceUnifiedMemory:     {"MTLDevice", "hasUnifiedMemory"},
	deviceAllocated:         {"MTLDevice", "currentAllocatedSize"},
	deviceNewQueue:          {"MTLDevice", "newCommandQueue"},
	deviceNewLibrary:        {"MTLDevice", "newLibraryWithSource:options:error:"},
	deviceNewPipeline:       {"MTLDevice", "newComputePipelineStateWithFunction:error:"},
	deviceNewBuffer:         {"MTLDevice", "newBufferWithLength:options:"},
	deviceNewResidencySet:   {"MTLDevice", "newResidencySetWithDescriptor:error:"},

	optionsSetLanguage:      {"MTLCompileOptions", "setLanguageVersion:"},
	optionsLanguage:         {"MTLCompileOptions", "languageVersion"},
	optionsSetMathMode:      {"MTLCompileOptions", "setMathMode:"},
	optionsMathMode:         {"MTLCompileOptions", "mathMode"},
	optionsSetMathFunctions: {"MTLCompileOptions", "setMathFloatingPointFunctions:"},
	optionsSetFastMath:      {"MTLCompileOptions", "setFastMathEnabled:"},
	optionsFastMath:         {"MTLCompileOptions", "fastMathEnabled"},
	optionsSetMacros:        {"MTLCompileOptions", "setPreprocessorMacros:"},

	libraryNewFunction:        {"MTLLibrary", "newFunctionWithName:constantValues:error:"},
	constantsSet:              {"MTLFunctionConstantValues", "setConstantValue:type:atIndex:"},
	pipelineMaxThreads:        {"MTLComputePipelineState", "maxTotalThreadsPerThreadgroup"},
	pipelineSimdWidth:         {"MTLComputePipelineState", "threadExecutionWidth"},
	pipelineThreadgroupMemory: {"MTLComputePipelineState", "staticThreadgroupMemoryLength"},
	bufferContents:            {"MTLBuffer", "contents"},

	queueCommandBuffer:      {"MTLCommandQueue", "commandBuffer"},
	queueAddResidencySet:    {"MTLCommandQueue", "addResidencySet:"},
	queueRemoveResidencySet: {"MTLCommandQueue", "removeResidencySet:"},

	commandsCompute: {"MTLCommandBuffer", "computeCommandEncoderWithDispatchType:"},
	commandsBlit:    {"MTLCommandBuffer", "blitCommandEncoder"},
	commandsCommit:  {"MTLCommandBuffer", "commit"},
	commandsWait:    {"MTLCommandBuffer", "waitUntilCompleted"},
	commandsStatus:  {"MTLCommandBuffer", "status"},
	commandsError:   {"MTLCommandBuffer", "error"},
	commandsStart:   {"MTLCommandBuffer", "GPUStartTime"},
	commandsEnd:     {"MTLCommandBuffer", "GPUEndTime"},

	encoderEnd:                  {"MTLCommandEncoder", "endEncoding"},
	encoderPushGroup:            {"MTLCommandEncoder", "pushDebugGroup:"},
	encoderPopGroup:             {"MTLCommandEncoder", "popDebugGroup"},
	computeSetPipeline:          {"MTLComputeCommandEncoder", "setComputePipelineState:"},
	computeSetBuffers:           {"MTLComputeCommandEncoder", "setBuffers:offsets:withRange:"},
	computeSetBytes:             {"MTLComputeCommandEncoder", "setBytes:length:atIndex:"},
	computeSetThreadgroupMemory: {"MTLComputeCommandEncoder", "setThreadgroupMemoryLength:atIndex:"},
	computeBarrier:              {"MTLComputeCommandEncoder", "memoryBarrierWithScope:"},
	computeDispatch:             {"MTLComputeCommandEncoder", "dispatchThreadgroups:threadsPerThreadgroup:"},
	blitCopy:                    {"MTLBlitCommandEncoder", "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"},

	residentAdd:     {"MTLResidencySet", "addAllocation:"},
	residentRemove:  {"MTLResidencySet", "removeAllocation:"},
	residentCommit:  {"MTLResidencySet", "commit"},
	residentRequest: {"MTLResidencySet", "requestResidency"},
	residentEnd:     {"MTLResidencySet", "endResidency"},

	captureShared:         {"MTLCaptureManager", "sharedCaptureManager"},
	captureSupports:       {"MTLCaptureManager", "supportsDestination:"},
	captureStart:          {"MTLCaptureManager", "startCaptureWithDescriptor:error:"},
	captureStop:           {"MTLCaptureManager", "stopCapture"},
	captureSetObject:      {"MTLCaptureDescriptor", "setCaptureObject:"},
	captureSetDestination: {"MTLCaptureDescriptor", "setDestination:"},
	captureSetURL:         {"MTLCaptureDescriptor", "setOutputURL:"},
}
