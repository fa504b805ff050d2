// Command buffers and their encoders.
#pragma once
#include "control.h"

typedef enum State { Open, Encoding, Committed, Completed, Failed } State;

// Commands is the state of a command buffer.
struct Commands {
    State state;
    bool waited; // waitUntilCompleted was called on this command buffer, not only on a later one
    Work* work;
    size_t count, room;
    Object** used; // objects to which the command buffer holds references until its completion
    size_t used_count, used_room;
    double start, end;
};

// Encoder is the state of an encoder. values[0] of the encoder's Object is the address of its
// command buffer.
struct Encoder {
    bool ended, concurrent;
    int groups;             // number of debug groups pushed
    Object* pipeline;       // the pipeline, which remains set after a dispatch
    Object* buffers[max_buffers];
    Word offsets[max_buffers];
    bool set[max_buffers]; // whether each buffer was set since the last dispatch
    int args_at;            // index of the arguments; -1 if none were set since the last dispatch
    uint32_t args_size;
    uint8_t args[max_args];
    Word shared;
    bool barrier;
};

Work* add_work(Commands* c);
void use(Commands* c, Object* o); // holds o until the command buffer is completed
void free_buffer(Object* b);
