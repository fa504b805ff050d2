// The slots of the KV pages to which a step's rows belong.
#include "defs.h"

// Slot is a row's entry in the slot mapping [rows], which the backend writes.
struct Slot {
    uint position;
    uint slot;   // page*page_size + slot in the page
    uint pages;  // start of the sequence's page table
};

// page_row returns the number of the row of a head at a slot.
inline uint page_row(uint slot, uint head, uint heads, uint page_size) {
    return (slot / page_size * heads + head) * page_size + slot % page_size;
}
