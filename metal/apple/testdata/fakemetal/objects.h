// The objects of the fake. They are in an arena, so that every received pointer can be checked.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t Word;

// A class and its superclass.
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

// State of objects of one class. It is freed with the object.
typedef struct Commands Commands;
typedef struct Encoder Encoder;

struct Object {
    bool live, initialised, is_class, single;
    Class kind;
    int64_t retains;
    char* text;          // text of a string, an error, a function or a URL
    Word values[4];      // their meaning depends on the class; see the functions that read them
    Object* held[3];     // objects to which this one holds references
    uint64_t handle;     // handle of the library, pipeline or buffer in the executor
    uint8_t* memory;     // memory of a buffer
    bool resident;       // whether the buffer is in a residency set
    uint32_t constants[64];
    uint64_t constant_mask;
    Commands* commands;
    Encoder* encoder;
    Object** members;    // references of a residency set
    size_t member_count, member_room;
};

Object* new_object(Class kind);                      // with one reference
Object* new_text(Class kind, const char* text);      // with one reference
Object* class_object(Class kind);
Object* live_object(Word pointer);                   // NULL if it is not a live object
void retain(Object* o);
void release(Object* o);
Object* autorelease(Object* o);
void hold(Object* o, int at, Object* what);          // o->held[at] becomes a reference to what; releases the previous one
void lock(void);                                     // held by each function that the program calls
void unlock(void);
bool in_pool(void);                                  // whether this thread has an autorelease pool
void finish(Object* o);                              // frees the state of the object's class

// violation records a violation.
__attribute__((format(printf, 1, 2))) void violation(const char* format, ...);
