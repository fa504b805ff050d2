// Detection of races in threadgroup memory: two threads use the same byte, at least one of them
// writes it, and there is no barrier in between. A GPU may run the two accesses in either order,
// even if there is a shuffle in between. Fibres run in a fixed order, so results do not show the
// race.
//
// A checked pointer cannot distinguish reads from writes. So when a fibre stops, examine compares
// the bytes that the fibre has used with their earlier values. A byte that has changed was written.
// A write that does not change a byte counts as a read.
#include <stdint.h>
#include <string.h>

namespace ingot {

// Lane is a thread with the numbers of barriers on threadgroup memory that it has passed.
struct Lane {
    uint16_t thread;
    uint16_t barriers;      // number of threadgroup barriers passed
    uint16_t simdBarriers;  // number of simdgroup barriers passed
};

struct Races {
    static constexpr uint16_t noThread = 0xffff;
    static constexpr uint32_t bytes = 32 << 10, accesses = 4096;

    Lane writers[bytes];     // last writer of each byte
    Lane readers[2][bytes];  // last two users of each byte
    char before[bytes];      // the memory when the running fibre started or was last examined
    struct { uint16_t at, size; } used[accesses];  // accesses of the running fibre since before was set
    uint32_t count;

    // The first race: two threads and the byte. first is noThread if there is none.
    uint16_t first, second;
    uint32_t byte;

    void reset(const char* memory, uint32_t size) {
        memcpy(before, memory, size);
        memset(writers, 0xff, sizeof(Lane) * size);
        memset(readers[0], 0xff, sizeof(Lane) * size);
        memset(readers[1], 0xff, sizeof(Lane) * size);
        count = 0, first = noThread;
    }

    // use records that a lane reads or writes bytes.
    void use(const char* memory, Lane lane, uint32_t at, uint32_t size) {
        if (count == accesses) examine(memory, lane);
        used[count].at = at, used[count].size = size, count++;
        for (uint32_t i = at; i < at + size; i++) {
            collide(writers[i], lane, i);
            if (readers[0][i].thread != lane.thread) readers[1][i] = readers[0][i];
            readers[0][i] = lane;
        }
    }

    // settle records the memory after an atomic change, so that the change does not count as a
    // write of the thread: atomic changes do not race with each other.
    void settle(const char* memory, uint32_t at, uint32_t size) { memcpy(before + at, memory + at, size); }

    // examine finds the writes of the running fibre. It is called when the fibre stops.
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
        if (first != noThread || earlier.thread == noThread || earlier.thread == now.thread || earlier.barriers != now.barriers) return;
        if (earlier.thread / 32 == now.thread / 32 && earlier.simdBarriers != now.simdBarriers) return;
        first = earlier.thread, second = now.thread, byte = i;
    }
};

}  // namespace ingot
