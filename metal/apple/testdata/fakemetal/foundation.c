// Foundation's classes, and captures.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "send.h"

Result fail(Word error, const char* text) {
    Object* e = autorelease(new_text(ClassNSError, text));
    e->values[0] = settings.error_code;
    *(Word*)error = (Word)e;
    return word(0);
}

static const Class allocatable[] = {ClassMTLCompileOptions, ClassMTLFunctionConstantValues, ClassMTLResidencySetDescriptor, ClassMTLCaptureDescriptor};

static Result alloc(Object* self) {
    for (size_t i = 0; i < sizeof allocatable / sizeof *allocatable; i++)
        if (allocatable[i] == self->kind) {
            Object* o = new_object(self->kind);
            o->initialised = false;
            return object(o);
        }
    violation("+[%s alloc]: the driver cannot make objects of this class", class_names[self->kind]);
    return word(0);
}

static Object* autoreleased_text(Class kind, const char* text) { return autorelease(new_text(kind, text)); }

static Object* capture_manager(void) {
    static Object* manager;
    if (!manager) {
        manager = new_object(ClassMTLCaptureManager);
        release(manager); // nobody owns the manager, and the count of live objects must not include it
        *manager = (Object){.live = true, .initialised = true, .single = true, .kind = ClassMTLCaptureManager};
    }
    return manager;
}

static Result start_capture(Object* manager, const Object* descriptor, Word error) {
    if (!descriptor->held[0] || !descriptor->held[1] || !descriptor->values[0]) {
        violation("startCaptureWithDescriptor:error: without an object, a file or a destination");
        return word(0);
    }
    const char* text = fault(FaultCapture);
    if (text) return fail(error, text);
    if (manager->values[0]) violation("startCaptureWithDescriptor:error: during a capture");
    manager->values[0] = 1;
    FILE* f = fopen(descriptor->held[1]->text, "wx");
    if (!f) {
        manager->values[0] = 0;
        return fail(error, "the output file cannot be made");
    }
    fclose(f);
    return word(1);
}

Result foundation(Object* self, Message m, const Word* a) {
    switch (m) {
    case NSObject_alloc: return alloc(self);
    case NSObject_init:
        if (self->initialised) violation("-[%s init]: a second time", class_names[self->kind]);
        self->initialised = true;
        return object(self);
    case NSString_stringWithCString_encoding_:
        if (a[1] != 4) violation("stringWithCString:encoding: of encoding %lu, not UTF-8", (unsigned long)a[1]);
        return object(autoreleased_text(ClassNSString, (const char*)a[0]));
    case NSString_UTF8String: return word((Word)self->text);
    case NSError_code: return word(self->values[0]);
    case NSError_localizedDescription: return object(autoreleased_text(ClassNSString, self->text));
    case NSArray_count: return word(self->held[0] ? 1 : 0);
    case NSArray_objectAtIndex_:
        if (a[0] != 0 || !self->held[0]) {
            violation("objectAtIndex: %lu, beyond the array", (unsigned long)a[0]);
            return word(0);
        }
        return object(self->held[0]);
    case NSDictionary_dictionaryWithObject_forKey_: {
        Object* d = autorelease(new_object(ClassNSDictionary));
        hold(d, 0, live_object(a[0]));
        hold(d, 1, live_object(a[1]));
        return object(d);
    }
    case NSURL_fileURLWithPath_: return object(autoreleased_text(ClassNSURL, live_object(a[0])->text));
    case MTLCaptureManager_sharedCaptureManager: return object(capture_manager());
    case MTLCaptureManager_supportsDestination_: return word(a[0] == 2 && settings.captures);
    case MTLCaptureManager_startCaptureWithDescriptor_error_: return start_capture(self, live_object(a[0]), a[1]);
    case MTLCaptureManager_stopCapture:
        if (!self->values[0]) violation("stopCapture without a capture");
        self->values[0] = 0;
        return word(0);
    case MTLCaptureDescriptor_setCaptureObject_: hold(self, 0, live_object(a[0])); return word(0);
    case MTLCaptureDescriptor_setDestination_: self->values[0] = a[0]; return word(0);
    case MTLCaptureDescriptor_setOutputURL_: hold(self, 1, live_object(a[0])); return word(0);
    default: violation("message %d has no handler", m); return word(0);
    }
}
