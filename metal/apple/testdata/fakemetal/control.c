#include "control.h"

#include <string.h>

#include "messages.h"

Executor executor;

Settings settings = {.working_set = 16ull << 30, .max_buffer = 8ull << 30, .family = 1009, .captures = 1, .error_code = 3};

static struct {
    bool set;
    uint32_t skip;
    char text[256];
} faults[FaultCount];

static uint64_t sent[MessageCount];

EXPORT Settings* fake_settings(void) { return &settings; }
EXPORT Executor* fake_executor(void) { return &executor; }
EXPORT uint64_t fake_sent(uint32_t row) { return row < MessageCount ? sent[row] : 0; }

void count_message(int row) { sent[row]++; }

// fake_fail makes a later call fail. skip is the number of calls before it that succeed.
EXPORT void fake_fail(uint32_t f, uint32_t skip, const char* text) {
    faults[f].set = true;
    faults[f].skip = skip;
    strncpy(faults[f].text, text, sizeof faults[f].text - 1);
}

const char* fault(Fault f) {
    if (!faults[f].set) return NULL;
    if (faults[f].skip > 0) {
        faults[f].skip--;
        return NULL;
    }
    faults[f].set = false;
    return faults[f].text;
}
