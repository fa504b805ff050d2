// Queues, command buffers and residency sets.
#include "commands.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "send.h"

enum { max_pending = 64 };

static Object* pending[max_pending]; // committed and not completed, in order
static size_t pending_count;
static const Work* last_work; // of the last committed command buffer; for tests
static size_t last_count;

EXPORT const Work* fake_work(uint64_t* count, uint64_t* size) {
    *count = last_count;
    *size = sizeof(Work);
    return last_work;
}

Work* add_work(Commands* c) {
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 16;
        c->work = realloc(c->work, c->room * sizeof *c->work);
    }
    return &c->work[c->count++];
}

void use(Commands* c, Object* o) {
    if (c->used_count == c->used_room) {
        c->used_room = c->used_room ? 2 * c->used_room : 64;
        c->used = realloc(c->used, c->used_room * sizeof *c->used);
    }
    retain(o);
    c->used[c->used_count++] = o;
}

static void drop_used(Commands* c) {
    for (size_t i = 0; i < c->used_count; i++) release(c->used[i]);
    c->used_count = 0;
}

void finish(Object* o) {
    if (o->kind == ClassMTLBuffer) free_buffer(o);
    for (size_t i = 0; i < o->member_count; i++) {
        o->members[i]->resident = false;
        release(o->members[i]);
    }
    free(o->members);
    if (o->encoder) {
        if (!o->encoder->ended) violation("an encoder is released without endEncoding");
        free(o->encoder);
    }
    Commands* c = o->commands;
    if (!c) return;
    if (c->state < Committed) violation("a command buffer is released without commit");
    drop_used(c);
    if (last_work == c->work) last_work = NULL, last_count = 0;
    free(c->work);
    free(c->used);
    free(c);
}

static Object* new_commands(Object* queue) {
    Object* o = new_object(ClassMTLCommandBuffer);
    o->commands = calloc(1, sizeof *o->commands);
    hold(o, 0, queue);
    return autorelease(o);
}

enum { commands_queue, commands_encoder, commands_error };

static Result new_encoder(Object* self, Class kind, bool concurrent) {
    Commands* c = self->commands;
    if (c->state != Open) {
        violation("an encoder of a command buffer that is committed or has another encoder");
        return word(0);
    }
    c->state = Encoding;
    Object* o = new_object(kind);
    o->encoder = calloc(1, sizeof *o->encoder);
    o->encoder->concurrent = concurrent;
    o->encoder->args_at = -1;
    o->values[0] = (Word)self; // no reference is needed: the command buffer outlives the encoder
    hold(self, commands_encoder, o);
    return object(autorelease(o));
}

enum { set_committed, set_attached, set_changed };

// resident checks that all used buffers are in the residency set of the queue, if the queue has
// one.
static void resident(const Object* queue, const Commands* c) {
    const Object* set = queue->held[0];
    if (!set) return;
    if (set->values[set_changed]) violation("work is committed while changes to a residency set are not");
    for (size_t i = 0; i < c->used_count; i++)
        if (c->used[i]->kind == ClassMTLBuffer && !c->used[i]->resident) violation("a buffer is used that is in no residency set");
}

// ordered checks that all work in flight belongs to the same queue: Metal orders work only within a
// queue.
static void ordered(const Object* queue) {
    for (size_t i = 0; i < pending_count; i++)
        if (pending[i]->held[commands_queue] != queue) violation("work is committed to a queue while work of another queue is not completed");
}

static Result commit(Object* self) {
    Commands* c = self->commands;
    if (c->state != Open || (self->held[commands_encoder] && !self->held[commands_encoder]->encoder->ended)) {
        violation("commit of a command buffer that is already committed, or has an open encoder");
        return word(0);
    }
    if (pending_count == max_pending) {
        violation("more than %d command buffers are in flight: the queue would block", max_pending);
        return word(0);
    }
    resident(self->held[commands_queue], c);
    ordered(self->held[commands_queue]);
    c->state = Committed;
    retain(self);
    pending[pending_count++] = self;
    last_work = c->work;
    last_count = c->count;
    return word(0);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void copy(const Work* w) { memcpy(w->to->memory + w->to_offset, w->from->memory + w->from_offset, w->size); }

// carry_out runs the work of a command buffer in order. Consecutive dispatches are passed to the
// executor in one call.
static bool carry_out(const Commands* c, char* error) {
    for (size_t i = 0, n; i < c->count; i += n) {
        n = 1;
        if (c->work[i].from) {
            copy(&c->work[i]);
            continue;
        }
        while (i + n < c->count && !c->work[i + n].from) n++;
        if (executor.run && executor.run(executor.id, &c->work[i], n, error)) return false;
    }
    return true;
}

static void complete(Object* self) {
    Commands* c = self->commands;
    char* error = calloc(1, error_size);
    const char* text = fault(FaultCommands);
    c->start = now();
    bool ok = !text && carry_out(c, error);
    c->end = now();
    c->state = ok ? Completed : Failed;
    if (!ok) {
        Object* e = new_text(ClassNSError, text ? text : error);
        e->values[0] = settings.error_code;
        hold(self, commands_error, e);
        release(e);
    }
    free(error);
    drop_used(c);
}

// wait_for completes all command buffers up to the given one. No command buffer runs before
// somebody waits for it, as on a very slow GPU.
static Result wait_for(const Object* self) {
    if (self->commands->state < Committed) {
        violation("waitUntilCompleted before commit");
        return word(0);
    }
    self->commands->waited = true;
    while (self->commands->state == Committed) {
        Object* first = pending[0];
        memmove(pending, pending + 1, --pending_count * sizeof *pending);
        complete(first);
        release(first);
    }
    return word(0);
}

static Result status(const Commands* c) {
    static const Word statuses[] = {0, 0, 2, 4, 5};
    const Word scheduled = 3;
    return word(c->state >= Completed && settings.late_status && !c->waited ? scheduled : statuses[c->state]);
}

static Result times(const Object* self, bool end) {
    const Commands* c = self->commands;
    if (c->state < Completed) violation("times of a command buffer that is not completed");
    // The integer register has an arbitrary value.
    return (Result){.integer = 0xdead, .real = end ? c->end : c->start};
}

static Result set_residency(Object* queue, Object* set, bool add) {
    hold(queue, 0, add ? set : NULL);
    return word(0);
}

static Result add_member(Object* set, Object* buffer) {
    if (buffer->resident) violation("a buffer is in a residency set already");
    if (set->member_count == set->member_room) {
        set->member_room = set->member_room ? 2 * set->member_room : 64;
        set->members = realloc(set->members, set->member_room * sizeof *set->members);
    }
    retain(buffer);
    buffer->resident = true;
    set->members[set->member_count++] = buffer;
    set->values[set_changed] = 1;
    return word(0);
}

static Result remove_member(Object* set, Object* buffer) {
    for (size_t i = 0; i < set->member_count; i++) {
        if (set->members[i] != buffer) continue;
        set->members[i] = set->members[--set->member_count];
        set->values[set_changed] = 1;
        buffer->resident = false;
        release(buffer);
        return word(0);
    }
    violation("a buffer is not in the residency set");
    return word(0);
}

Result commands(Object* self, Message m, const Word* a) {
    switch (m) {
    case MTLCommandQueue_commandBuffer: return object(new_commands(self));
    case MTLCommandQueue_addResidencySet_: return set_residency(self, live_object(a[0]), true);
    case MTLCommandQueue_removeResidencySet_: return set_residency(self, live_object(a[0]), false);
    case MTLCommandBuffer_computeCommandEncoderWithDispatchType_:
        if (a[0] > 1) violation("a compute encoder of dispatch type %lu", (unsigned long)a[0]);
        return new_encoder(self, ClassMTLComputeCommandEncoder, a[0] == 1);
    case MTLCommandBuffer_blitCommandEncoder: return new_encoder(self, ClassMTLBlitCommandEncoder, false);
    case MTLCommandBuffer_commit: return commit(self);
    case MTLCommandBuffer_waitUntilCompleted: return wait_for(self);
    case MTLCommandBuffer_status: return status(self->commands);
    case MTLCommandBuffer_error: return object(self->held[commands_error]);
    case MTLCommandBuffer_GPUStartTime: return times(self, false);
    case MTLCommandBuffer_GPUEndTime: return times(self, true);
    case MTLResidencySet_addAllocation_: return add_member(self, live_object(a[0]));
    case MTLResidencySet_removeAllocation_: return remove_member(self, live_object(a[0]));
    case MTLResidencySet_commit: self->values[set_changed] = 0; return word(0);
    case MTLResidencySet_requestResidency:
    case MTLResidencySet_endResidency: return word(0);
    default: violation("message %d has no handler", m); return word(0);
    }
}
