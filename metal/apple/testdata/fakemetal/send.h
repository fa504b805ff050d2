// A message and its handlers.
#pragma once
#include "control.h"
#include "messages.h"

// Result is what a method returns: an integer or pointer, or a double.
typedef struct Result {
    Word integer;
    double real;
} Result;

static inline Result word(Word w) { return (Result){.integer = w}; }
static inline Result object(Object* o) { return word((Word)o); }

// fail returns nil and an NSError.
Result fail(Word error, const char* text);

// Each function handles the messages of some classes. a has the arguments after the selector, whose
// kinds were checked.
Result foundation(Object* self, Message m, const Word* a);
Result device(Object* self, Message m, const Word* a);
Result commands(Object* self, Message m, const Word* a);
Result encode(Object* self, Message m, const Word* a);
