// Data that tests set and read, and the functions that run work.
#pragma once
#include "objects.h"

#define EXPORT __attribute__((visibility("default")))

enum { max_buffers = 31, max_args = 4096, error_size = 8192 };

// Work is a dispatch, or a copy if pipeline is 0. fakemetal_test.go mirrors it.
typedef struct Work {
    uint64_t pipeline; // handles
    uint64_t buffers[max_buffers], offsets[max_buffers];
    uint64_t groups[3], threads[3];
    uint64_t shared; // bytes of threadgroup memory
    uint32_t bound, args_size;
    uint32_t barrier, concurrent;
    uint8_t args[max_args];

    Object *from, *to; // source and destination of a copy
    Word from_offset, to_offset, size;
} Work;

// Executor has the functions of the test that run work. All are NULL if work is only recorded.
typedef struct Executor {
    Word id; // passed to each function
    Word (*compile)(Word id, const char* text, Word mode, char* error);
    Word (*kernel)(Word id, Word library, const char* name, const uint32_t* constants, Word mask, char* error);
    Word (*buffer)(Word id, Word bytes, uint8_t** memory);
    Word (*free)(Word id, Word handle);
    Word (*run)(Word id, const Work* work, Word count, char* error);
} Executor;

extern Executor executor;

typedef enum Fault {
    NoFault,
    FaultDevice,   // there is no device
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

// fault returns the text of the error if this call must fail, else NULL.
const char* fault(Fault f);

// Settings describes the device and the system.
typedef struct Settings {
    uint64_t working_set, max_buffer;
    uint64_t family;       // the latest family that the device supports
    uint64_t no_default;   // 1: the system has no default device
    uint64_t old_system;   // 1: the system has no residency sets and math modes
    uint64_t captures;     // 1: captures to files are allowed
    uint64_t error_code;   // error code of command buffers that fail
    uint64_t late_status;  // 1: the status of a command buffer changes only in a wait for that command buffer, not for a later one
} Settings;

extern Settings settings;

void count_message(int row);
