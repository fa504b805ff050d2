// Command buffers and their encoders.
#pragma once
#include "control.h"

typedef enum State { Open, Encoding, Committed, Completed, Failed } State;

// Commands is what a command buffer keeps.
struct Commands {
    State state;
    Work* work;
    size_t count, room;
    Object** used; // references, until it is completed
    size_t used_count, used_room;
    double start, end;
};

// Encoder is what an encoder keeps. The command buffer holds it by its first reference.
struct Encoder {
    bool ended, concurrent;
    int groups;             // debug groups pushed
    Object* pipeline;       // stays from one dispatch to the next
    Object* buffers[most_buffers];
    Word offsets[most_buffers];
    bool set[most_buffers]; // since the last dispatch
    int args_at;            // -1: none since the last dispatch
    uint32_t args_size;
    uint8_t args[most_args];
    Word shared;
    bool barrier;
};

Work* add_work(Commands* c);
void use(Commands* c, Object* o); // keeps it until the command buffer is completed
void free_buffer(Object* b);
