// Recurrent states: what a sequence keeps of its earlier rows, in slots.
#include "defs.h"

// StateSlot describes rows of a sequence and the state that they continue. The backend makes a list
// of them for each step.
struct StateSlot {
    uint row;       // first row in the batch
    uint rows;      // number of rows
    uint drafts;    // number of last rows that may be rejected: the state does not include them, and they are logged
    int from;       // slot of the state before the first row; -1 for a state of zeros
    uint to;        // slot in which the state is left
    uint accepted;  // number of rows in the log of slot from that come before the first row
    uint before;    // convolve: rows of the sequence in the batch before these; delta_chunks: the first row's chunk in the list of chunks
};

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
