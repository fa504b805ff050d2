// objc_msgSend: finds the method, checks receiver and arguments, and calls the handler.
#include "send.h"

#include <string.h>

enum { max_words = 6 };

typedef struct Row {
    Class kind;           // class that declares the method
    bool of_class;        // a method of the class itself
    const char* selector;
    const char* args;     // a letter for each argument: see signatures.go
    Class classes[3];     // classes of the arguments that are objects, in order
    char returns;
} Row;

static const Row rows[MessageCount] = {
#define X(kind, id, of_class, selector, args, c0, c1, c2, returns) {Class##kind, of_class, selector, args, {c0, c1, c2}, returns},
    MESSAGES(X)
#undef X
};

// A SEL is the address of the first row that has the selector.
EXPORT Word sel_registerName(const char* name) {
    for (int i = 0; i < MessageCount; i++)
        if (!strcmp(rows[i].selector, name)) return (Word)&rows[i];
    violation("sel_registerName of %s, which is in no row of the signatures", name);
    return 0;
}

// missing reports whether the simulated system lacks a method, because it is older than macOS 15.
static bool missing(Message m) {
    return settings.old_system && (m == MTLDevice_newResidencySetWithDescriptor_error_ || m == MTLCompileOptions_setMathMode_ ||
        m == MTLCompileOptions_mathMode || m == MTLCompileOptions_setMathFloatingPointFunctions_);
}

static int search(const Object* o, const Row* selector) {
    for (int i = (int)(selector - rows); i < MessageCount; i++)
        if (!strcmp(rows[i].selector, selector->selector) && is_kind(o->kind, rows[i].kind) && rows[i].of_class == o->is_class) return i;
    return -1;
}

// method returns the index of the row for a selector and the class of an object; -1 if the object
// has no such method.
static int method(const Object* o, const Row* selector) {
    static int found[MessageCount][ClassCount][2]; // row + 2; 0 before the first search
    int* at = &found[selector - rows][o->kind][o->is_class];
    if (*at == 0) *at = 2 + search(o, selector);
    int m = *at - 2;
    return m < 0 || missing(m) ? -1 : m;
}

static const Row* selector_of(Word sel) {
    Word first = (Word)rows;
    if (sel < first || sel >= (Word)(rows + MessageCount) || (sel - first) % sizeof(Row)) return NULL;
    return (const Row*)sel;
}

// check_args checks that the words a have the kinds of arguments that row r lists. It returns the
// number of words of these arguments.
static int check_args(const Row* r, const Word* a, bool* bad) {
    int at = 0, nth = 0;
    for (const char* k = r->args; *k; k++, at++) {
        const char* wrong = NULL;
        switch (*k) {
        case 'u': case 'n': break;
        case 'b': if (a[at] > 1) wrong = "not a BOOL"; break;
        case 's': if (!selector_of(a[at])) wrong = "not a selector"; break;
        case 'c': case 'p': case 'z': if (a[at] < 4096) wrong = "not an address"; break;
        case 'e': if (a[at] < 4096 || a[at] % 8) wrong = "not the address of an NSError"; break;
        case 'r': at++; break; // NSRange takes two words
        case 'o': {
            const Object* o = live_object(a[at]);
            Class c = r->classes[nth++];
            if (!o)
                wrong = "not a live object";
            else if (!is_kind(o->kind, c) || o->is_class)
                wrong = "an object of another class";
            else if (!o->initialised)
                wrong = "an object before its init";
            break;
        }
        default: wrong = "of an unknown kind";
        }
        if (wrong) {
            violation("-[%s %s]: word %d is %#lx, %s", class_names[r->kind], r->selector, at, (unsigned long)a[at], wrong);
            *bad = true;
        }
    }
    return at;
}

static Result handle(Object* self, Message m, const Word* a) {
    switch (rows[m].kind) {
    case ClassNSObject:
        if (m == NSObject_respondsToSelector_) {
            const Row* asked = selector_of(a[0]);
            return word(method(self, asked) >= 0);
        }
        return foundation(self, m, a);
    case ClassNSString: case ClassNSError: case ClassNSArray: case ClassNSDictionary: case ClassNSURL:
    case ClassMTLCaptureManager: case ClassMTLCaptureDescriptor:
        return foundation(self, m, a);
    case ClassMTLCommandQueue: case ClassMTLCommandBuffer: case ClassMTLResidencySet:
        return commands(self, m, a);
    case ClassMTLCommandEncoder: case ClassMTLComputeCommandEncoder: case ClassMTLBlitCommandEncoder:
        return encode(self, m, a);
    default:
        return device(self, m, a);
    }
}

// The number of words after the selector is that of the message with the most arguments. The caller
// fills the words after its arguments with zeros, so that an extra argument is found unless it
// is 0.
static Result checked_send(Word self, Word sel, Word a0, Word a1, Word a2, Word a3, Word a4, Word a5) {
    if (self == 0) return word(0);
    const Word a[max_words] = {a0, a1, a2, a3, a4, a5};
    const Row* selector = selector_of(sel);
    if (!selector) {
        violation("objc_msgSend with %#lx, which is not a selector", (unsigned long)sel);
        return word(0);
    }
    Object* o = live_object(self);
    if (!o) {
        violation("%s is sent to %#lx, which is not a live object", selector->selector, (unsigned long)self);
        return word(0);
    }
    if (!in_pool()) violation("%s is sent to a %s outside of an autorelease pool of the thread", selector->selector, class_names[o->kind]);
    int m = method(o, selector);
    if (m < 0) {
        violation("%s %s does not recognise %s", o->is_class ? "class" : "an object of class", class_names[o->kind], selector->selector);
        return word(0);
    }
    if (!o->initialised && m != NSObject_init) violation("%s is sent to a %s before its init", selector->selector, class_names[o->kind]);
    bool bad = false;
    // Messages that return doubles are sent by another function, which does not fill the unused
    // words.
    for (int at = check_args(&rows[m], a, &bad); at < max_words && rows[m].returns != 'd'; at++)
        if (a[at]) {
            violation("-[%s %s]: an extra word, %#lx", class_names[rows[m].kind], rows[m].selector, (unsigned long)a[at]);
            bad = true;
        }
    count_message(m);
    return bad ? word(0) : handle(o, m, a);
}

__attribute__((visibility("hidden"), used)) Result fake_send(Word self, Word sel, Word a0, Word a1, Word a2, Word a3, Word a4, Word a5) {
    lock();
    Result r = checked_send(self, sel, a0, a1, a2, a3, a4, a5);
    unlock();
    return r;
}

// objc_msgSend returns an integer in the integer register and a double in the first register for
// doubles. A caller reads one of the two. MTLSize is passed by address, as on arm64; the convention
// of x86-64 passes it on the stack.
#if defined(__x86_64__)
// A struct of a word and a double is returned in rax and xmm0.
EXPORT Result objc_msgSend(Word self, Word sel, Word a0, Word a1, Word a2, Word a3, Word a4, Word a5) {
    return fake_send(self, sel, a0, a1, a2, a3, a4, a5);
}
#elif defined(__aarch64__)
// The struct is returned in x0 and x1.
#if defined(__APPLE__)
#define NAME(s) "_" s
#else
#define NAME(s) s
__asm__(".type objc_msgSend, %function");
#endif
__asm__(".text\n.p2align 2\n.globl " NAME("objc_msgSend") "\n" NAME("objc_msgSend") ":\n"
        "stp x29, x30, [sp, #-16]!\nmov x29, sp\nbl " NAME("fake_send") "\n"
        "fmov d0, x1\nldp x29, x30, [sp], #16\nret\n");
#else
#error "the fake supports only the calling conventions of x86-64 and arm64"
#endif
