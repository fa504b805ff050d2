// The device and the objects that it makes, except queues.
#include <stdlib.h>
#include <string.h>

#include "send.h"

static uint64_t allocated;
static uint64_t serial; // last handle, if there is no executor to make handles

EXPORT Object* MTLCreateSystemDefaultDevice(void) {
    if (settings.no_default || fault(FaultDevice)) return NULL;
    return new_object(ClassMTLDevice);
}

EXPORT Object* MTLCopyAllDevices(void) {
    Object* list = new_object(ClassNSArray);
    if (settings.no_default) {
        Object* d = new_object(ClassMTLDevice);
        hold(list, 0, d);
        release(d);
    }
    return list;
}

enum { options_language, options_math, options_functions, options_fast }; // stored values are one higher than the values that were set, so that 0 means not set

static Result set_option(Object* self, int at, Word value, Word most) {
    if (value > most) violation("a compile option is set to %lu, which is not a valid value", (unsigned long)value);
    self->values[at] = value + 1;
    return word(0);
}

// mode_of returns the metal.Mode: fast if the math mode is relaxed or fast.
static Word mode_of(const Object* options) {
    const Object* macros = options->held[0];
    if (macros && !strcmp(macros->held[1]->text, "INGOT_DEBUG")) return 1;
    Word fast = settings.old_system ? options->values[options_fast] == 2 : options->values[options_math] >= 2;
    return fast ? 2 : 0;
}

static Result new_library(const Object* source, const Object* options, Word error) {
    if (options->values[options_language] == 0) violation("a library is compiled without a language version");
    if (options->values[settings.old_system ? options_fast : options_math] == 0) violation("a library is compiled without a math mode");
    if (!settings.old_system && options->values[options_functions] == 0) violation("a library is compiled without a choice of math functions");
    const char* text = fault(FaultCompile);
    if (text) return fail(error, text);
    Object* library = new_text(ClassMTLLibrary, source->text);
    if (executor.compile) {
        char* message = calloc(1, error_size);
        library->handle = executor.compile(executor.id, source->text, mode_of(options), message);
        if (!library->handle) {
            fail(error, message);
            release(library);
            library = NULL;
        }
        free(message);
    }
    return object(library);
}

static Result new_function(const Object* library, const Object* name, const Object* constants, Word error) {
    const char* text = fault(FaultFunction);
    if (text) return fail(error, text);
    uint64_t handle = ++serial;
    if (executor.kernel) {
        char* message = calloc(1, error_size);
        handle = executor.kernel(executor.id, library->handle, name->text, constants->constants, constants->constant_mask, message);
        if (!handle) fail(error, message);
        free(message);
    } else if (!strstr(library->text, name->text)) {
        handle = 0;
        fail(error, "function was not found in the library");
    }
    if (!handle) return word(0);
    Object* f = new_text(ClassMTLFunction, name->text);
    f->handle = handle;
    return object(f);
}

static Result new_pipeline(const Object* function, Word error) {
    const char* text = fault(FaultPipeline);
    if (text) return fail(error, text);
    Object* p = new_text(ClassMTLComputePipelineState, function->text);
    p->handle = function->handle;
    return object(p);
}

enum { buffer_bytes, buffer_private };

static Result new_buffer(Word bytes, Word options) {
    if (options != 0 && options != 0x20) violation("newBufferWithLength:options: with options %#lx", (unsigned long)options);
    if (bytes == 0 || bytes > settings.max_buffer) {
        violation("newBufferWithLength:options: of %lu bytes", (unsigned long)bytes);
        return word(0);
    }
    if (fault(FaultBuffer)) return word(0);
    Object* b = new_object(ClassMTLBuffer);
    if (executor.buffer)
        b->handle = executor.buffer(executor.id, bytes, &b->memory);
    else
        b->handle = ++serial, b->memory = calloc(1, bytes);
    if (!b->memory) {
        release(b);
        return word(0);
    }
    b->values[buffer_bytes] = bytes;
    b->values[buffer_private] = options == 0x20;
    allocated += bytes;
    return object(b);
}

// free_buffer is called when a buffer's last reference is released.
void free_buffer(Object* b) {
    if (!b->memory) return;
    allocated -= b->values[buffer_bytes];
    if (executor.free)
        executor.free(executor.id, b->handle);
    else
        free(b->memory);
}

static Result set_constant(Object* self, const void* value, Word type, Word at) {
    if (type != 33 || at >= 64) {
        violation("setConstantValue:type:atIndex: of type %lu at index %lu", (unsigned long)type, (unsigned long)at);
        return word(0);
    }
    memcpy(&self->constants[at], value, 4);
    self->constant_mask |= 1ull << at;
    return word(0);
}

static Result new_residency_set(Word error) {
    const char* text = fault(FaultResidency);
    if (text) return fail(error, text);
    return object(new_object(ClassMTLResidencySet));
}

Result device(Object* self, Message m, const Word* a) {
    switch (m) {
    case MTLDevice_name: return object(autorelease(new_text(ClassNSString, "Fake M3 Max")));
    case MTLDevice_supportsFamily_: return word(a[0] > 1000 && a[0] <= settings.family);
    case MTLDevice_recommendedMaxWorkingSetSize: return word(settings.working_set);
    case MTLDevice_maxBufferLength: return word(settings.max_buffer);
    case MTLDevice_maxThreadgroupMemoryLength: return word(32 << 10);
    case MTLDevice_hasUnifiedMemory: return word(0xff00 | 1); // the bits above a BOOL are arbitrary
    case MTLDevice_currentAllocatedSize: return word(allocated);
    case MTLDevice_newCommandQueue: return fault(FaultQueue) ? word(0) : object(new_object(ClassMTLCommandQueue));
    case MTLDevice_newLibraryWithSource_options_error_: return new_library(live_object(a[0]), live_object(a[1]), a[2]);
    case MTLDevice_newComputePipelineStateWithFunction_error_: return new_pipeline(live_object(a[0]), a[1]);
    case MTLDevice_newBufferWithLength_options_: return new_buffer(a[0], a[1]);
    case MTLDevice_newResidencySetWithDescriptor_error_: return new_residency_set(a[1]);
    case MTLCompileOptions_setLanguageVersion_: return set_option(self, options_language, a[0], 4 << 16);
    case MTLCompileOptions_languageVersion: return word(self->values[options_language] - 1);
    case MTLCompileOptions_setMathMode_: return set_option(self, options_math, a[0], 2);
    case MTLCompileOptions_mathMode: return word(self->values[options_math] - 1);
    case MTLCompileOptions_setMathFloatingPointFunctions_: return set_option(self, options_functions, a[0], 1);
    case MTLCompileOptions_setFastMathEnabled_: return set_option(self, options_fast, a[0], 1);
    case MTLCompileOptions_fastMathEnabled: return word(0xff00 | (self->values[options_fast] == 2));
    case MTLCompileOptions_setPreprocessorMacros_: hold(self, 0, live_object(a[0])); return word(0);
    case MTLLibrary_newFunctionWithName_constantValues_error_: return new_function(self, live_object(a[0]), live_object(a[1]), a[2]);
    case MTLFunctionConstantValues_setConstantValue_type_atIndex_: return set_constant(self, (const void*)a[0], a[1], a[2]);
    case MTLComputePipelineState_maxTotalThreadsPerThreadgroup: return word(1024);
    case MTLComputePipelineState_threadExecutionWidth: return word(32);
    case MTLComputePipelineState_staticThreadgroupMemoryLength: return word(0);
    case MTLBuffer_contents:
        if (self->values[buffer_private]) violation("contents of a private buffer");
        return word((Word)self->memory);
    default: violation("message %d has no handler", m); return word(0);
    }
}
