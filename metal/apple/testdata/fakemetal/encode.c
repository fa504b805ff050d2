// Encoders. A dispatch checks its bindings.
#include <string.h>

#include "commands.h"
#include "send.h"

// owner returns the command buffer of an encoder, or NULL if it is not alive. An encoder holds no
// reference to it.
static Object* owner(const Object* encoder) { return encoder->values[0] ? live_object(encoder->values[0]) : NULL; }

static Result end(Object* self, Object* buffer) {
    if (self->encoder->groups) violation("endEncoding within a debug group");
    self->encoder->ended = true;
    buffer->commands->state = Open;
    return word(0);
}

static void set_buffer(Encoder* e, Object* b, Word offset, Word at) {
    if (at >= max_buffers) {
        violation("a buffer is bound at index %lu", (unsigned long)at);
        return;
    }
    if (!b || b->kind != ClassMTLBuffer || b->is_class) {
        violation("the buffer at index %lu is not live", (unsigned long)at);
        return;
    }
    if (offset >= b->values[0] || offset % 4) violation("a buffer of %lu bytes is bound from byte %lu on", (unsigned long)b->values[0], (unsigned long)offset);
    e->buffers[at] = b;
    e->offsets[at] = offset;
    e->set[at] = true;
}

static Result set_buffers(Encoder* e, const Word* buffers, const Word* offsets, Word from, Word count) {
    if (from + count > max_buffers) {
        violation("setBuffers:offsets:withRange: of %lu from %lu on", (unsigned long)count, (unsigned long)from);
        return word(0);
    }
    for (Word i = 0; i < count; i++) set_buffer(e, live_object(buffers[i]), offsets[i], from + i);
    return word(0);
}

static Result set_bytes(Encoder* e, const void* bytes, Word size, Word at) {
    if (size == 0 || size > max_args || at >= max_buffers) {
        violation("setBytes:length:atIndex: of %lu bytes at index %lu", (unsigned long)size, (unsigned long)at);
        return word(0);
    }
    memcpy(e->args, bytes, size);
    e->args_size = (uint32_t)size;
    e->args_at = (int)at;
    return word(0);
}

// bound returns the number of buffers that are set. They must be set from index 0 on without a gap,
// and the arguments must follow them.
static uint32_t bound(const Encoder* e) {
    uint32_t n = 0;
    while (n < max_buffers && e->set[n]) n++;
    for (uint32_t i = n; i < max_buffers; i++)
        if (e->set[i]) violation("a buffer is bound at index %u and none at %u", i, n);
    if (e->args_at >= 0 && (uint32_t)e->args_at != n) violation("arguments are at index %d behind %u buffers", e->args_at, n);
    return n;
}

static Result dispatch(Encoder* e, Commands* c, const Word* groups, const Word* threads) {
    if (!e->pipeline) {
        violation("a dispatch without a pipeline");
        return word(0);
    }
    Word all = threads[0] * threads[1] * threads[2];
    if (all == 0 || all > 1024) violation("a dispatch of %lu threads per threadgroup", (unsigned long)all);
    if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) violation("a dispatch of no threadgroups");
    Work* w = add_work(c);
    memset(w, 0, offsetof(Work, args));
    w->from = w->to = NULL;
    w->pipeline = e->pipeline->handle;
    w->bound = bound(e);
    for (uint32_t i = 0; i < w->bound; i++) {
        w->buffers[i] = e->buffers[i]->handle;
        w->offsets[i] = e->offsets[i];
        use(c, e->buffers[i]);
    }
    use(c, e->pipeline);
    if (e->args_at >= 0) {
        w->args_size = e->args_size;
        memcpy(w->args, e->args, e->args_size);
    }
    memcpy(w->groups, groups, sizeof w->groups);
    memcpy(w->threads, threads, sizeof w->threads);
    w->shared = e->shared;
    w->barrier = e->barrier || !e->concurrent;
    w->concurrent = e->concurrent;
    memset(e->set, 0, sizeof e->set);
    e->args_at = -1;
    e->shared = 0;
    e->barrier = false;
    return word(0);
}

static Result copy(Commands* c, Object* from, Word from_offset, Object* to, Word to_offset, Word size) {
    if (size == 0 || from_offset + size > from->values[0] || to_offset + size > to->values[0]) {
        violation("a copy of %lu bytes beyond a buffer's end", (unsigned long)size);
        return word(0);
    }
    if (from_offset % 4 || to_offset % 4 || size % 4) violation("a copy of %lu bytes from byte %lu to byte %lu: macOS takes multiples of 4", (unsigned long)size, (unsigned long)from_offset, (unsigned long)to_offset);
    Work* w = add_work(c);
    memset(w, 0, offsetof(Work, args));
    w->from = from, w->to = to;
    w->from_offset = from_offset, w->to_offset = to_offset, w->size = size;
    use(c, from);
    use(c, to);
    return word(0);
}

static Result set_shared(Encoder* e, Word size, Word at) {
    if (at != 0 || size == 0 || size % 16 || size > 32 << 10)
        violation("setThreadgroupMemoryLength:atIndex: of %lu bytes at index %lu", (unsigned long)size, (unsigned long)at);
    e->shared = size;
    return word(0);
}

Result encode(Object* self, Message m, const Word* a) {
    Encoder* e = self->encoder;
    Object* buffer = owner(self);
    if (e->ended || !buffer) {
        violation("message %d to an encoder after endEncoding, or after its command buffer is gone", m);
        return word(0);
    }
    Commands* c = buffer->commands;
    switch (m) {
    case MTLCommandEncoder_endEncoding: return end(self, buffer);
    case MTLCommandEncoder_pushDebugGroup_: e->groups++; return word(0);
    case MTLCommandEncoder_popDebugGroup:
        if (e->groups-- == 0) violation("popDebugGroup without a group");
        return word(0);
    case MTLComputeCommandEncoder_setComputePipelineState_: e->pipeline = live_object(a[0]); return word(0);
    case MTLComputeCommandEncoder_setBuffers_offsets_withRange_: return set_buffers(e, (const Word*)a[0], (const Word*)a[1], a[2], a[3]);
    case MTLComputeCommandEncoder_setBytes_length_atIndex_: return set_bytes(e, (const void*)a[0], a[1], a[2]);
    case MTLComputeCommandEncoder_setThreadgroupMemoryLength_atIndex_: return set_shared(e, a[0], a[1]);
    case MTLComputeCommandEncoder_memoryBarrierWithScope_:
        if (a[0] != 1) violation("memoryBarrierWithScope: %lu", (unsigned long)a[0]);
        e->barrier = true;
        return word(0);
    case MTLComputeCommandEncoder_dispatchThreadgroups_threadsPerThreadgroup_: return dispatch(e, c, (const Word*)a[0], (const Word*)a[1]);
    case MTLBlitCommandEncoder_copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_:
        return copy(c, live_object(a[0]), a[1], live_object(a[2]), a[3], a[4]);
    default: violation("message %d has no handler", m); return word(0);
    }
}
