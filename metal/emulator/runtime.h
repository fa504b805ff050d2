// The runtime of kernels on the CPU. Each thread of a kernel is a fibre. Fibres are switched at
// barriers and simdgroup operations. Go mirrors the layout of Launch and Binding (workers.go) and
// of Entry (library.go).
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;

struct uint3 { uint x, y, z; };

#if defined(__APPLE__)
#define INGOT_SYMBOL(name) "_" #name
#else
#define INGOT_SYMBOL(name) #name
#endif
#define INGOT_EXPORT extern "C" __attribute__((visibility("default")))

namespace ingot {

struct Binding { char* low; char* at; char* high; };  // a buffer from address low to high, bound at address at

struct Launch {
    const Binding* buffers;
    const void* args;
    const uint32_t* constants;
    char* message;  // receives the text of a fault; messageSize bytes
    uint32_t messageSize;
    uint32_t sharedSize;  // bytes of threadgroup memory
    uint32_t groups[3];
    uint32_t threads;  // threads of a threadgroup
    uint32_t seed;     // seed of the order of fibres; 0 for ascending order
    uint32_t next;     // the next threadgroup to run; shared by all workers
    uint32_t failed;   // set by the first fault
};

constexpr uint32_t lanes = 32;
constexpr uint32_t maxThreads = 1024;
#if defined(INGOT_EMULATOR_CUDA)
constexpr uint32_t maxShared = 227 << 10;
#else
constexpr uint32_t maxShared = 32 << 10;
#endif
constexpr uintptr_t stackBytes = 64 << 10;  // size and alignment of stacks: code finds its fibre by rounding down an address on its stack
constexpr uintptr_t cacheLine = 64;

enum State : uint32_t { Ready, AtSimd, AtBarrier, Done, Faulted };

struct Worker;

struct Simdgroup {
    alignas(16) char slots[2][lanes][16];  // values that lanes exchange in this operation and in the one before
    uint32_t index;
    uint32_t computed;  // number of the last operation that a lane has computed for all lanes; see computes
};

struct Fibre {
    void* sp;
    Worker* worker;
    Simdgroup* simdgroup;
    uint32_t tid, lane;
    uint32_t round;  // number of simdgroup operations that the fibre has done
    uint16_t barriers, simdBarriers;  // numbers of barriers on threadgroup memory that the fibre has passed; see races.h
    State state;
    const char* file;  // source file of the operation for which the fibre waits
    int line;
};

struct Entry {
    const char* name;
    void (*call)(Fibre&);
    uint32_t buffers, argsSize, usesShared;  // usesShared is 2 if a launch may have no threadgroup memory
};

struct Worker {
    Launch* launch;
    void (*call)(Fibre&);
    uint3 group;
    void* sp;
    char* shared;
    char* stacks;
#if defined(INGOT_DEBUG)
    Races* races;
#endif
    uint32_t ready;  // number of fibres whose stacks are set up
    bool inOrder;    // each lane switches to the next one; see following
    uint64_t random;
    Fibre fibres[maxThreads];
    Simdgroup simdgroups[maxThreads / lanes];
};

extern "C" void ingot_switch(void** save, void* load);

#if defined(__x86_64__)
__asm__(".text\n.p2align 4\n" INGOT_SYMBOL(ingot_switch) ":\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\n"
        // The processor expects ret to return to the last call, which another fibre made. It
        // predicts a jump from earlier ones, and all lanes continue at the same address.
        "popq %rcx\njmp *%rcx\n");
constexpr uintptr_t savedWords = 7, returnWord = 6, spareWords = 1;
#elif defined(__aarch64__)
__asm__(".text\n.p2align 4\n" INGOT_SYMBOL(ingot_switch) ":\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n");
constexpr uintptr_t savedWords = 20, returnWord = 11, spareWords = 0;
#else
#error "the emulator supports only x86-64 and arm64"
#endif

// owner is where the stack that contains an address has the pointer to its fibre. It is near the
// low end. Neighbouring stacks have it in different cache lines, since lines at the same offset of
// all stacks would displace each other from the processor's caches.
inline Fibre*& owner(uintptr_t address) {
    return *(Fibre**)((address & ~(stackBytes - 1)) + address / stackBytes % lanes * cacheLine);
}

inline Fibre& self() { return *owner((uintptr_t)__builtin_frame_address(0)); }

inline Lane lane(const Fibre& f) { return {(uint16_t)f.tid, f.barriers, f.simdBarriers}; }

// following returns the stack that continues when a fibre stops: the stack of the next lane, or
// that of advance, if the fibre is the last lane, if the order is shuffled, or if advance examines
// what each fibre did.
__attribute__((noinline)) static void* following(Fibre& f) {
    const Worker& w = *f.worker;
    const Fibre& next = (&f)[1];
    return w.inOrder && f.lane + 1 < lanes && next.state == Ready ? next.sp : w.sp;
}

inline void wait(Fibre& f, State state, const char* file, int line) {
    f.state = state, f.file = file, f.line = line;
    ingot_switch(&f.sp, following(f));
}

// fault records the message of the launch's first fault. After a fault, no further threadgroup
// starts. faultHere also stops the calling fibre, so it does not return.
template <class... A>
__attribute__((noinline, cold)) void fault(Worker& w, const char* format, A... a) {
    if (!__atomic_exchange_n(&w.launch->failed, 1, __ATOMIC_ACQ_REL)) {
        int n = snprintf(w.launch->message, w.launch->messageSize, "threadgroup (%u, %u, %u): ", w.group.x, w.group.y, w.group.z);
        snprintf(w.launch->message + n, w.launch->messageSize - n, format, a...);
    }
}

template <class... A>
[[noreturn]] __attribute__((noinline, cold)) void faultHere(const char* format, A... a) {
    Fibre& f = self();
    fault(*f.worker, format, a...);
    f.state = Faulted;
    ingot_switch(&f.sp, f.worker->sp);
    __builtin_unreachable();
}

static void fibreMain() {
    Fibre& f = self();
    for (;;) {
        f.worker->call(f);
        f.state = Done;
        ingot_switch(&f.sp, following(f));
    }
}

static void setUp(Worker& w, uint32_t i) {
    Fibre& f = w.fibres[i];
    char* low = w.stacks + i * stackBytes;
    owner((uintptr_t)low) = &f;
    // Stacks begin at different offsets, too, for the sake of the caches.
    void** sp = (void**)(low + stackBytes - i % lanes * 4 * cacheLine) - 2 - spareWords - savedWords;
    memset(sp, 0, sizeof(void*) * (savedWords + spareWords + 2));
    sp[returnWord] = (void*)fibreMain;
    f.sp = sp, f.worker = &w, f.tid = i, f.lane = i % lanes, f.simdgroup = &w.simdgroups[i / lanes];
    f.simdgroup->index = i / lanes;
}

// draw returns a random number below n (splitmix64).
static uint32_t draw(Worker& w, uint32_t n) {
    uint64_t z = w.random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % n;
}

static void describe(char* text, size_t size, const Fibre& f) {
    if (f.state == Done) {
        snprintf(text, size, "thread %u has returned", f.tid);
    } else {
        snprintf(text, size, "thread %u waits at %s:%d for its %s", f.tid, f.file, f.line, f.state == AtBarrier ? "threadgroup" : "simdgroup");
    }
}

// stopped is called when a fibre has stopped, and with it those to which it switched. It returns
// false if a fibre has faulted or has a race.
static bool stopped(Worker& w, Fibre& f) {
    if (__atomic_load_n(&w.launch->failed, __ATOMIC_RELAXED)) return false;
#if defined(INGOT_DEBUG)
    w.races->examine(w.shared, lane(f));
    if (w.races->first != Races::noThread) {
        fault(w, "threads %u and %u use byte %u of threadgroup memory without a barrier in between; the second thread then reached %s:%d",
              w.races->first, w.races->second, w.races->byte, f.file, f.line);
        return false;
    }
#endif
    return true;
}

// advance runs the fibres of a simdgroup until all of them wait, and completes the simdgroup
// operation for which they wait. It returns false if no fibre can continue: all are at a barrier,
// all have returned, or there was a fault.
static bool advance(Worker& w, uint32_t simdgroup) {
    Fibre* f = w.fibres + simdgroup * lanes;
    uchar order[lanes];
    bool shuffled = w.launch->seed;
    for (uint32_t i = 0; shuffled && i < lanes; i++) order[i] = i;
    for (uint32_t i = lanes - 1; shuffled && i > 0; i--) {
        uint32_t j = draw(w, i + 1);
        uchar other = order[i];
        order[i] = order[j], order[j] = other;
    }
    bool any = false;
    for (uint32_t i = 0; i < lanes; i++) {
        Fibre& next = f[shuffled ? order[i] : i];
        if (next.state != Ready) continue;
        any = true;
        ingot_switch(&w.sp, next.sp);
        if (!stopped(w, next)) return false;
    }
    if (!any) return false;
    for (uint32_t i = 1; i < lanes; i++) {
        bool same = f[i].state == f[0].state && (f[i].state == Done || (f[i].line == f[0].line && f[i].file == f[0].file));
        if (same) continue;
        char first[200], other[200];
        describe(first, sizeof first, f[0]), describe(other, sizeof other, f[i]);
        fault(w, "simdgroup %u diverges: %s, %s", simdgroup, first, other);
        return false;
    }
    if (f[0].state != AtSimd) return false;
    for (uint32_t i = 0; i < lanes; i++) f[i].state = Ready;
    return true;
}

// runGroup runs one threadgroup to completion.
static void runGroup(Worker& w) {
    const Launch& l = *w.launch;
    uint32_t n = l.threads, count = n / lanes;
    memset(w.shared, 0xff, l.sharedSize + 64);  // poison; 64 bytes more than the size, to find writes past the end
#if defined(INGOT_DEBUG)
    w.races->reset(w.shared, l.sharedSize);
#endif
    for (uint32_t i = 0; i < n; i++) {
        Fibre& f = w.fibres[i];
        f.state = Ready, f.round = 0, f.file = "?", f.line = 0, f.barriers = 0, f.simdBarriers = 0;
        f.simdgroup->computed = 0;
    }
    for (;;) {
        uint32_t first = l.seed ? draw(w, count) : 0;
        for (uint32_t i = 0; i < count; i++) {
            while (advance(w, (first + i) % count)) {
                if (l.seed && draw(w, 2)) {  // run another simdgroup first
                    first = draw(w, count), i = -1;
                    break;
                }
            }
            if (__atomic_load_n(&l.failed, __ATOMIC_ACQUIRE)) return;
        }
        const Fibre& f0 = w.fibres[0];
        uint32_t waiting = 0;
        for (uint32_t i = 0; i < n; i += lanes) {
            const Fibre& f = w.fibres[i];
            waiting += f.state == AtBarrier;
            if (f.state == AtBarrier && f0.state == AtBarrier && (f.line != f0.line || f.file != f0.file)) {
                return fault(w, "threads 0 and %u wait at different barriers, %s:%d and %s:%d", f.tid, f0.file, f0.line, f.file, f.line);
            }
        }
        if (waiting == 0) break;
        if (waiting < count) {
            for (uint32_t i = 0; i < n; i += lanes) {
                const Fibre& f = w.fibres[i];
                if (f.state == AtBarrier) return fault(w, "a barrier at %s:%d that %u of %u threads do not reach", f.file, f.line, (count - waiting) * lanes, n);
            }
        }
        for (uint32_t i = 0; i < n; i++) w.fibres[i].state = Ready;
    }
    for (uint32_t i = 0; i < 64; i++) {
        if (w.shared[l.sharedSize + i] != (char)0xff) return fault(w, "a write past the %u bytes of threadgroup memory", l.sharedSize);
    }
}

static Entry entries[2048];
static uint32_t entryCount;

struct Register {
    Register(const Entry& e) {
        if (entryCount < sizeof entries / sizeof *entries) entries[entryCount++] = e;
    }
};

}  // namespace ingot

INGOT_EXPORT const ingot::Entry* ingot_entries(uint32_t* count) {
    *count = ingot::entryCount;
    return ingot::entries;
}

INGOT_EXPORT void ingot_worker_free(ingot::Worker* w) {
#if defined(INGOT_DEBUG)
    free(w->races);
#endif
    free(w->shared), free(w->stacks), free(w);
}

// ingot_worker_new allocates a worker for threadgroups of this library's kernels. It returns null
// if memory is exhausted.
INGOT_EXPORT ingot::Worker* ingot_worker_new() {
    using namespace ingot;
    Worker* w = (Worker*)calloc(1, sizeof(Worker));
    if (!w) return nullptr;
    w->shared = (char*)aligned_alloc(64, maxShared + 64);
    w->stacks = (char*)aligned_alloc(stackBytes, maxThreads * stackBytes);
    bool made = w->shared && w->stacks;
#if defined(INGOT_DEBUG)
    w->races = (Races*)malloc(sizeof(Races));
    made = made && w->races;
#endif
    if (made) return w;
    ingot_worker_free(w);
    return nullptr;
}

// ingot_run runs threadgroups of a launch until none is left or one has failed. Calls with
// different workers may run concurrently.
INGOT_EXPORT void ingot_run(ingot::Launch* l, uint32_t entry, ingot::Worker* worker) {
    using namespace ingot;
    Worker& w = *worker;
    w.launch = l;
    w.call = entries[entry].call;
#if !defined(INGOT_DEBUG)
    w.inOrder = !l->seed;
#endif
    for (; w.ready < l->threads; w.ready++) setUp(w, w.ready);
    uint64_t count = (uint64_t)l->groups[0] * l->groups[1] * l->groups[2];
    while (!__atomic_load_n(&l->failed, __ATOMIC_ACQUIRE)) {
        uint32_t i = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);
        if (i >= count) return;
        w.group = {i % l->groups[0], i / l->groups[0] % l->groups[1], i / l->groups[0] / l->groups[1]};
        w.random = (uint64_t)l->seed << 32 | i;
        runGroup(w);
    }
    w.ready = 0;  // set up all stacks again, since the fibres may have stopped anywhere
}
