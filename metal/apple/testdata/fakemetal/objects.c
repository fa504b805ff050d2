#include "objects.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"

enum { arena_size = 1 << 14, pool_size = 1 << 14, breach_count = 64, breach_size = 512 };

static Object arena[arena_size];
static uint32_t free_ring[arena_size]; // freed objects are reused as late as possible, to detect stale pointers
static uint32_t free_from, free_to, used, alive;

// The autorelease pools of a thread.
static _Thread_local Object* pool[pool_size];
static _Thread_local size_t pool_used, pools;

// one_at_a_time is held by each function that the program calls. The mutex is recursive, since
// releasing an object can end work.
static pthread_mutex_t one_at_a_time;
__attribute__((constructor)) static void make_lock(void) {
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&one_at_a_time, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

void lock(void) { pthread_mutex_lock(&one_at_a_time); }
void unlock(void) { pthread_mutex_unlock(&one_at_a_time); }

static char violations[breach_count][breach_size];
static uint32_t breached;

const char* const class_names[ClassCount] = {
    "none",
#define X(name, above) #name,
    CLASSES(X)
#undef X
};

static const Class above_of[ClassCount] = {
    NoClass,
#define X(name, above) Class##above,
    CLASSES(X)
#undef X
};

bool is_kind(Class c, Class above) {
    while (c != above && c != ClassNSObject) c = above_of[c];
    return c == above;
}

void violation(const char* format, ...) {
    va_list list;
    va_start(list, format);
    if (breached < breach_count) vsnprintf(violations[breached], breach_size, format, list);
    breached++;
    va_end(list);
}

EXPORT const char* fake_breach(uint32_t i) { return i < breached && i < breach_count ? violations[i] : NULL; }
EXPORT uint32_t fake_live(void) { return alive; }

EXPORT const char* fake_live_name(uint32_t n) {
    for (uint32_t i = 0; i < used; i++)
        if (arena[i].live && !arena[i].is_class && !arena[i].single && n-- == 0) return class_names[arena[i].kind];
    return NULL;
}

Object* new_object(Class kind) {
    Object* o;
    if (used < arena_size) {
        o = &arena[used++];
    } else {
        if (free_from == free_to) {
            fprintf(stderr, "fakemetal: more than %d objects are alive\n", arena_size);
            abort();
        }
        o = &arena[free_ring[free_from++ % arena_size]];
    }
    *o = (Object){.live = true, .initialised = true, .kind = kind, .retains = 1};
    alive++;
    return o;
}

Object* new_text(Class kind, const char* text) {
    Object* o = new_object(kind);
    o->text = strdup(text);
    return o;
}

Object* class_object(Class kind) {
    static Object* classes[ClassCount];
    if (!classes[kind]) {
        classes[kind] = new_object(kind);
        classes[kind]->is_class = true;
        alive--;
    }
    return classes[kind];
}

Object* live_object(Word pointer) {
    Word first = (Word)arena;
    if (pointer < first || pointer >= (Word)(arena + used) || (pointer - first) % sizeof(Object)) return NULL;
    Object* o = (Object*)pointer;
    return o->live ? o : NULL;
}

void retain(Object* o) {
    if (!o->is_class && !o->single) o->retains++;
}

void release(Object* o) {
    if (o->is_class || o->single || --o->retains > 0) return;
    finish(o);
    free(o->text);
    for (size_t i = 0; i < sizeof o->held / sizeof *o->held; i++)
        if (o->held[i]) release(o->held[i]);
    o->live = false;
    alive--;
    free_ring[free_to++ % arena_size] = (uint32_t)(o - arena);
}

void hold(Object* o, int at, Object* what) {
    if (what) retain(what);
    if (o->held[at]) release(o->held[at]);
    o->held[at] = what;
}

bool in_pool(void) { return pools > 0; }

Object* autorelease(Object* o) {
    if (pool_used == pool_size) {
        violation("more than %d objects in autorelease pools", pool_size);
        return o;
    }
    pool[pool_used++] = o;
    return o;
}

EXPORT Word objc_autoreleasePoolPush(void) {
    pools++;
    return pool_used + 1;
}

EXPORT void objc_autoreleasePoolPop(Word token) {
    lock();
    if (!in_pool() || token == 0 || token > pool_used + 1) {
        violation("an autorelease pool is popped on another thread, twice or out of order");
    } else {
        pools--;
        while (pool_used >= token) release(pool[--pool_used]);
    }
    unlock();
}

EXPORT Word objc_retain(Word pointer) {
    lock();
    Object* o = live_object(pointer);
    if (o)
        retain(o);
    else if (pointer)
        violation("objc_retain of %p, which is not a live object", (void*)pointer);
    unlock();
    return pointer;
}

EXPORT void objc_release(Word pointer) {
    lock();
    Object* o = live_object(pointer);
    if (o)
        release(o);
    else if (pointer)
        violation("objc_release of %p, which is not a live object", (void*)pointer);
    unlock();
}

static Object* class_named(const char* name) {
    for (Class c = ClassNSObject; c < ClassCount; c++)
        if (!strcmp(class_names[c], name)) return class_object(c);
    violation("objc_getClass of %s, which the fake does not have", name);
    return NULL;
}

EXPORT Word objc_getClass(const char* name) {
    lock();
    Object* o = class_named(name);
    unlock();
    return (Word)o;
}
