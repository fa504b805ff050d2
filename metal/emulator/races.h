// Races in threadgroup memory: two threads use the same byte, one of them writes it, and no barrier stands in between. A
// GPU may run them in either order, whatever shuffles they share; fibres run in one, so the result alone does not show it.
//
// An access through a checked pointer does not say whether it reads or writes. A write is found later, where the fibre
// stops: the byte has changed since. A write of the value that is there already passes for a read.
#include <stdint.h>
#include <string.h>

namespace ingot {

// Lane is a thread at a point of its program: how many barriers it has passed that order threadgroup memory.
struct Lane {
    uint16_t thread;
    uint16_t barriers;      // of the threadgroup
    uint16_t simdBarriers;  // of the simdgroup
};

struct Races {
    static constexpr uint16_t nobody = 0xffff;
    static constexpr uint32_t bytes = 32 << 10, accesses = 4096;

    Lane writers[bytes];     // who wrote a byte last
    Lane readers[2][bytes];  // the last two threads that used it
    char before[bytes];      // what the memory held when the running fibre started or was last examined
    struct { uint16_t at, size; } used[accesses];  // by the running fibre since then
    uint32_t count;

    // The first race: two threads and the byte. first is nobody while there is none.
    uint16_t first, second;
    uint32_t byte;

    void reset(const char* memory, uint32_t size) {
        memcpy(before, memory, size);
        memset(writers, 0xff, sizeof(Lane) * size);
        memset(readers[0], 0xff, sizeof(Lane) * size);
        memset(readers[1], 0xff, sizeof(Lane) * size);
        count = 0, first = nobody;
    }

    // use notes that a lane reads or writes bytes.
    void use(const char* memory, Lane lane, uint32_t at, uint32_t size) {
        if (count == accesses) examine(memory, lane);
        used[count].at = at, used[count].size = size, count++;
        for (uint32_t i = at; i < at + size; i++) {
            collide(writers[i], lane, i);
            if (readers[0][i].thread != lane.thread) readers[1][i] = readers[0][i];
            readers[0][i] = lane;
        }
    }

    // examine finds what the running fibre has written. It is called where the fibre stops.
    void examine(const char* memory, Lane lane) {
        for (uint32_t k = 0; k < count; k++) {
            for (uint32_t i = used[k].at; i < used[k].at + used[k].size; i++) {
                if (memory[i] == before[i]) continue;
                before[i] = memory[i];
                writers[i] = lane;
                collide(readers[0][i], lane, i);
                collide(readers[1][i], lane, i);
            }
        }
        count = 0;
    }

private:
    void collide(Lane earlier, Lane now, uint32_t i) {
        if (first != nobody || earlier.thread == nobody || earlier.thread == now.thread || earlier.barriers != now.barriers) return;
        if (earlier.thread / 32 == now.thread / 32 && earlier.simdBarriers != now.simdBarriers) return;
        first = earlier.thread, second = now.thread, byte = i;
    }
};

}  // namespace ingot
