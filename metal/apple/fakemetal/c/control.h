// What tests set and read, and what carries the work out.
#pragma once
#include "objects.h"

#define EXPORT __attribute__((visibility("default")))

enum { most_buffers = 31, most_args = 4096, error_size = 8192 };

// Work is a dispatch, or a copy where pipeline is 0. It is Work of fakemetal.go.
typedef struct Work {
    uint64_t pipeline; // handles
    uint64_t buffers[most_buffers], offsets[most_buffers];
    uint64_t groups[3], threads[3];
    uint64_t shared; // bytes of threadgroup memory
    uint32_t bound, args_size;
    uint32_t barrier, concurrent;
    uint8_t args[most_args];

    Object *from, *to; // of a copy
    Word from_offset, to_offset, size;
} Work;

// Executor is what carries the work out, a function of the test each; all are NULL where work is only recorded.
typedef struct Executor {
    Word id; // passed to each
    Word (*compile)(Word id, const char* text, Word mode, char* error);
    Word (*kernel)(Word id, Word library, const char* name, const uint32_t* constants, Word mask, char* error);
    Word (*buffer)(Word id, Word bytes, uint8_t** memory);
    Word (*free)(Word id, Word handle);
    Word (*run)(Word id, const Work* work, Word count, char* error);
} Executor;

extern Executor executor;

typedef enum Fault {
    NoFault,
    FaultDevice,   // there is none
    FaultQueue,
    FaultResidency,
    FaultCompile,
    FaultFunction,
    FaultPipeline,
    FaultBuffer,
    FaultCommands, // a command buffer ends with an error
    FaultCapture,
    FaultCount
} Fault;

// fault tells whether this is to fail, with its text.
const char* fault(Fault f);

// Settings describe the device and the system.
typedef struct Settings {
    uint64_t working_set, max_buffer;
    uint64_t family;       // the latest
    uint64_t no_default;   // the system names no default device
    uint64_t old_system;   // without residency sets and math modes
    uint64_t captures;     // to files are allowed
    uint64_t error_code;   // of failing command buffers
} Settings;

extern Settings settings;

void count_message(int row);
