// Objects of the fake: what the Objective-C runtime keeps, in an arena so that every pointer received can be checked.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t Word;

// A class and the one above it.
#define CLASSES(X)                                                                                                        \
    X(NSObject, NSObject) X(NSString, NSObject) X(NSError, NSObject) X(NSArray, NSObject) X(NSDictionary, NSObject)       \
    X(NSURL, NSObject) X(MTLDevice, NSObject) X(MTLCompileOptions, NSObject) X(MTLLibrary, NSObject)                      \
    X(MTLFunction, NSObject) X(MTLFunctionConstantValues, NSObject) X(MTLComputePipelineState, NSObject)                  \
    X(MTLAllocation, NSObject) X(MTLResource, MTLAllocation) X(MTLBuffer, MTLResource) X(MTLCommandQueue, NSObject)       \
    X(MTLCommandBuffer, NSObject) X(MTLCommandEncoder, NSObject) X(MTLComputeCommandEncoder, MTLCommandEncoder)           \
    X(MTLBlitCommandEncoder, MTLCommandEncoder) X(MTLResidencySet, NSObject) X(MTLResidencySetDescriptor, NSObject)       \
    X(MTLCaptureManager, NSObject) X(MTLCaptureDescriptor, NSObject)

typedef enum Class {
    NoClass,
#define X(name, above) Class##name,
    CLASSES(X)
#undef X
        ClassCount
} Class;

extern const char* const class_names[ClassCount];
bool is_kind(Class c, Class above);

typedef struct Object Object;

// What objects of a class keep beside the fields that all have; freed with the object.
typedef struct Commands Commands;
typedef struct Encoder Encoder;

struct Object {
    bool live, initialised, is_class, single;
    Class kind;
    int64_t retains;
    char* text;          // of a string, an error, a function or a URL
    Word values[4];      // named by the functions that read them
    Object* held[3];     // references
    uint64_t handle;     // what carries this out
    uint8_t* memory;     // of a buffer
    bool resident;       // a buffer in a committed residency set
    uint32_t constants[64];
    uint64_t constant_mask;
    Commands* commands;
    Encoder* encoder;
    Object** members;    // of a residency set, references
    size_t member_count, member_room;
};

Object* new_object(Class kind);                      // with one reference
Object* new_text(Class kind, const char* text);      // likewise
Object* class_object(Class kind);
Object* live_object(Word pointer);                   // or NULL
void retain(Object* o);
void release(Object* o);
Object* autorelease(Object* o);
void hold(Object* o, int at, Object* what);          // with a reference; gives back what was there
bool in_pool(void);                                  // of this thread
void finish(Object* o);                              // frees what a class keeps

// breach notes that a rule was broken.
__attribute__((format(printf, 1, 2))) void breach(const char* format, ...);
