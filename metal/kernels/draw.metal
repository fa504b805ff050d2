// Drawing of tokens: edits of logits, sums of weights by parts of a row, and the choice.
#include "draw.h"

struct DrawArgs {
    uint cols;
    uint parts;       // per row
    uint src_stride;
    uint dst_stride;
};

constant uint edit_words = 4;  // an edit is [token | count | bias | logit before the edit]
constant uint edit_token = 0xffffff, edit_seen = 1 << 24, edit_excluded = 1 << 25;

// edited returns a logit after an edit: compute.Draw.Edited.
inline float edited(float logit, uint flags, uint count, float bias, device const DrawRowArgs& row) {
    if (!is_finite(logit)) return logit;
    if ((flags & edit_excluded) != 0) return -max_logit;
    logit += bias;
    if (((flags & edit_seen) != 0 || count > 0) && row.repetition != 0) logit = logit > 0 ? logit / row.repetition : logit * row.repetition;
    if (count > 0) {
        logit -= row.frequency * float(count);
        logit -= row.presence;
    }
    return limited(logit, max_logit);
}

// draw_edits changes the logits of a row by its edits, and stores the logits before in the edits. A
// threadgroup processes a row.
kernel void draw_edits(
    device float* logits [[buffer(0)]],
    device const DrawRowArgs* rows [[buffer(1)]],
    device uint* lists [[buffer(2)]],
    constant DrawArgs& args [[buffer(3)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    device const DrawRowArgs& row = rows[group.x];
    if (row.edits == none) return;
    logits += ulong(group.x) * args.src_stride;
    for (uint e = tid; e < row.edit_count; e += 32 * simdgroups) {
        device uint* edit = lists + row.edits + edit_words * e;
        uint id = edit[0] & edit_token;
        float logit = logits[id];
        edit[3] = as_type<uint>(logit);
        logits[id] = edited(logit, edit[0], edit[1], as_type<float>(edit[2]), row);
    }
}

// Tokens are the tokens of a row from index first on, with their weights. Tokens with keys below
// cut, and those with the key cut after index last, have no weight.
struct Tokens {
    device const float* logits;
    device const uint* mask;
    bool masked;
    float scale;
    int top;
    uint first;
    uint cut, last;
    float logit(uint i) const { return !masked || (mask[i / 32] >> (i % 32) & 1) != 0 ? logits[i] : -max_logit; }
    ulong weight(uint i) const {
        i += first;
        float v = logit(i);
        uint k = key_of(v);
        return k < cut || (k == cut && i > last) ? 0 : weight_of(v, scale, top);
    }
};

// tokens_of returns the tokens of a row that can be drawn.
inline Tokens tokens_of(device const float* logits, device const uint* lists, device const DrawRowArgs& row) {
    Tokens t = {logits, lists + (row.mask > 0 ? row.mask - 1 : 0), row.mask > 0, row.scale, 0, 0, key_of(-max_logit) + 1, none};
    return t;
}

// draw_parts writes for each part of a row [highest logit | its index | sum of weights, 64 bits].
// The weights refer to the highest logit of the part. It is infinite if a logit is NaN or infinity.
// Grid: (parts, rows). shared has two values per simdgroup.
[[max_total_threads_per_threadgroup(DRAW_THREADS)]] kernel void draw_parts(
    device const float* src [[buffer(0)]],
    device const DrawRowArgs* rows [[buffer(1)]],
    device const uint* lists [[buffer(2)]],
    device uint* parts [[buffer(3)]],
    constant DrawArgs& args [[buffer(4)]],
    threadgroup uint* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    device const DrawRowArgs& row = rows[group.y];
    Tokens tokens = tokens_of(src + ulong(group.y) * args.src_stride, lists, row);
    uint first = group.x * DRAW_PART, end = min(first + DRAW_PART, args.cols);
    float values[DRAW_PART / DRAW_THREADS];
    Place mine = {-INFINITY, none};
    uint broken = 0;
    UNROLL for (uint j = 0; j < DRAW_PART / DRAW_THREADS; j++) {
        uint i = first + tid + j * DRAW_THREADS;
        values[j] = -INFINITY;
        if (i < end) {
            if (!is_finite(tokens.logits[i]) && !is_impossible(tokens.logits[i])) broken = 1;
            values[j] = is_finite(tokens.logits[i]) ? tokens.logit(i) : -INFINITY;
            if (before(values[j], i, mine.value, mine.index)) {
                mine.value = values[j];
                mine.index = i;
            }
        }
    }
    Place best = best_of(mine, (threadgroup float*)shared, shared + simdgroups, lane, simdgroup, simdgroups);
    int top = exponent_of(best.value, row.scale);
    ulong sum = 0;
    if (row.kind == DRAW_ALL) {
        UNROLL for (uint j = 0; j < DRAW_PART / DRAW_THREADS; j++) sum += values[j] > -max_logit ? weight_of(values[j], row.scale, top) : 0;
    }
    sum = simd_total(sum);
    broken = simd_max(broken);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) {
        shared[2 * simdgroup] = uint(sum);
        shared[2 * simdgroup + 1] = uint(sum >> 32) | broken << 31;  // sums are below 2^52
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid > 0) return;
    for (uint s = 1; s < simdgroups; s++) {
        uint high = shared[2 * s + 1];
        broken |= high >> 31;
        sum += ulong(high & 0x7fffffff) << 32 | shared[2 * s];
    }
    parts += 4 * (ulong(group.y) * args.parts + group.x);
    parts[0] = as_type<uint>(broken != 0 ? INFINITY : best.value);
    parts[1] = best.index;
    parts[2] = uint(sum);
    parts[3] = uint(sum >> 32);
}

// Sums are the weights of the parts of a row in units of the whole row.
struct Sums {
    device const uint* parts;
    float scale;
    int top;
    uint shift(uint i) const { return min(uint(top - exponent_of(as_type<float>(parts[4 * i]), scale)), 63u); }
    ulong weight(uint i) const { return (ulong(parts[4 * i + 3]) << 32 | parts[4 * i + 2]) >> shift(i); }
};

// Buckets are sums of weights in threadgroup memory.
struct Buckets {
    threadgroup const uint* sums;
    ulong weight(uint i) const { return sum_at(sums, i); }
};

// Ties are the tokens with a key; each has the weight 1.
struct Ties {
    Tokens tokens;
    uint key;
    ulong weight(uint i) const { return key_of(tokens.logit(i)) == key ? 1 : 0; }
};

// Group is the threadgroup that processes a row. sums has two values per simdgroup, and so has
// best. buckets has DRAW_BUCKETS sums.
struct Group {
    uint tid, lane, simdgroup, simdgroups;
    threadgroup uint* sums;
    threadgroup uint* best;
    threadgroup uint* buckets;
};

// The goals of a search: a sum of weights, a random number, which is multiplied by the total of all
// weights, or a share of the total.
constant uint at_sum = 0, at_random = 1, at_share = 2;

// Found is the first item with which the sum of weights exceeds the goal. rest is the goal less the
// weights before the item.
struct Found {
    uint index;
    ulong rest;
};

// search finds an item among count items. All threads receive the result. Each round divides the
// items among the simdgroups.
template <class Items> inline Found search(Items items, uint count, uint goal, ulong value, Group g) {
    uint begin = 0, end = count;
    while (goal != at_sum || end - begin > 4) {
        uint each = (end - begin + g.simdgroups - 1) / g.simdgroups;
        uint from = begin + g.simdgroup * each, to = min(from + each, end);
        ulong sum = 0;
        for (uint i = from + g.lane; i < to; i += 32) sum += items.weight(i);
        sum = simd_total(sum);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (g.lane == 0) {
            g.sums[2 * g.simdgroup] = uint(sum);
            g.sums[2 * g.simdgroup + 1] = uint(sum >> 32);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (goal != at_sum) {
            ulong total = 0;
            for (uint s = 0; s < g.simdgroups; s++) total += sum_at(g.sums, s);
            value = goal == at_random ? high_product(value, total) : mass_of(uint(value), total) - 1;
            goal = at_sum;
        }
        uint s = 0;
        for (; s + 1 < g.simdgroups && value >= sum_at(g.sums, s); s++) value -= sum_at(g.sums, s);
        begin = min(begin + s * each, end - 1);
        end = min(begin + each, end);
    }
    for (; begin + 1 < end; begin++) {
        ulong w = items.weight(begin);
        if (value < w) break;
        value -= w;
    }
    Found found = {begin, value};
    return found;
}

// add adds a weight to a bucket.
inline void add(threadgroup uint* buckets, uint bucket, ulong weight) {
    threadgroup atomic_uint* sums = (threadgroup atomic_uint*)buckets;
    uint low = uint(weight), old = atomic_fetch_add_explicit(sums + 2 * bucket, low, memory_order_relaxed);
    uint high = uint(weight >> 32) + (old + low < old ? 1 : 0);
    if (high > 0) atomic_fetch_add_explicit(sums + (2 * bucket + 1), high, memory_order_relaxed);
}

inline void clear(Group g) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = g.tid; i < 2 * DRAW_BUCKETS; i += 32 * g.simdgroups) g.buckets[i] = 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
}

// bucket_of returns the bucket of a logit by its distance from the highest one. It does not
// decrease with lower logits. 16 buckets are a factor of 2 in probability.
inline uint bucket_of(float best, float logit, float scale) {
    return uint(min((best - max(logit, -max_logit)) * scale * 16.0f, float(DRAW_BUCKETS - 1)));
}

// cut_at adds up the weights of tokens from the highest logit down, or counts the tokens, until the
// goal is exceeded. It returns the key of the last logit. rest is the goal less the weights of all
// higher logits.
inline Found cut_at(Tokens t, uint cols, float best, bool counts, uint goal, ulong value, Group g) {
    uint threads = 32 * g.simdgroups;
    clear(g);
    for (uint i = g.tid; i < cols; i += threads) {
        float v = t.logit(i);
        if (key_of(v) >= t.cut) add(g.buckets, bucket_of(best, v, t.scale), counts ? 1 : weight_of(v, t.scale, t.top));
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    Buckets buckets = {g.buckets};
    Found found = search(buckets, DRAW_BUCKETS, goal, value, g);
    uint low = none, high = 0;
    for (uint i = g.tid; i < cols; i += threads) {
        float v = t.logit(i);
        uint k = key_of(v);
        if (k >= t.cut && bucket_of(best, v, t.scale) == found.index) {
            low = min(low, k);
            high = max(high, k);
        }
    }
    low = simd_min(low);
    high = simd_max(high);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (g.lane == 0) {
        g.best[2 * g.simdgroup] = low;
        g.best[2 * g.simdgroup + 1] = high;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint s = 0; s < g.simdgroups; s++) {
        low = min(low, g.best[2 * s]);
        high = max(high, g.best[2 * s + 1]);
    }
    // The keys of the bucket are divided into buckets again until one key is left.
    while (low < high) {
        uint shift = 0;
        while (((high - low) >> shift) >= DRAW_BUCKETS) shift++;
        clear(g);
        for (uint i = g.tid; i < cols; i += threads) {
            float v = t.logit(i);
            uint k = key_of(v);
            if (k >= low && k <= high) add(g.buckets, (high - k) >> shift, counts ? 1 : weight_of(v, t.scale, t.top));
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        found = search(buckets, DRAW_BUCKETS, at_sum, found.rest, g);
        high -= found.index << shift;
        uint span = (1u << shift) - 1;
        low = high - low > span ? high - span : low;
    }
    found.index = high;
    return found;
}

// keep raises the limits of tokens so that only those remain that min-p, top-k and top-p keep.
inline Tokens keep(Tokens t, uint cols, float best, device const DrawRowArgs& row, Group g) {
    t.cut = max(t.cut, key_of(best + row.margin));
    if (row.top_k > 0 && row.top_k < cols) {
        Tokens all = t;
        all.cut = 0;
        t.cut = max(t.cut, cut_at(all, cols, best, true, at_sum, row.top_k - 1, g).index);
    }
    if (row.share > 0) {
        Found found = cut_at(t, cols, best, false, at_share, row.share, g);
        // Among tokens with equal logits, each has the same weight. The lowest ids are kept.
        t.cut = found.index;
        uint bits = found.index >> 31 != 0 ? found.index ^ 0x80000000u : ~found.index;
        Ties ties = {t, found.index};
        t.last = search(ties, cols, at_sum, found.rest / weight_of(as_type<float>(bits), t.scale, t.top), g).index;
    }
    return t;
}

// drawn returns the index of the row's token.
inline uint drawn(Tokens t, Place best, device const uint* parts, constant DrawArgs& args, device const DrawRowArgs& row, Group g) {
    if (row.kind == DRAW_GIVEN) return row.token;
    if (row.kind == DRAW_HIGHEST || !(fabs(best.value) < max_logit)) return best.index < args.cols ? best.index : 0;
    ulong random = ulong(row.random_high) << 32 | row.random_low;
    t.top = exponent_of(best.value, t.scale);
    if (row.kind == DRAW_SOME) return search(keep(t, args.cols, best.value, row, g), args.cols, at_random, random, g).index;
    Sums sums = {parts, t.scale, t.top};
    Found part = search(sums, args.parts, at_random, random, g);
    uint shift = sums.shift(part.index);
    t.top -= int(shift);
    t.first = part.index * DRAW_PART;
    return t.first + search(t, min(uint(DRAW_PART), args.cols - t.first), at_sum, ((part.rest + 1) << shift) - 1, g).index;
}

// draw chooses a row's token and writes [index | logit before the edits | highest logit]. A
// threadgroup of at least two simdgroups processes a row.
[[max_total_threads_per_threadgroup(CHOOSE_THREADS)]] kernel void draw(
    device const float* src [[buffer(0)]],
    device const DrawRowArgs* rows [[buffer(1)]],
    device const uint* lists [[buffer(2)]],
    device const uint* parts [[buffer(3)]],
    device float* dst [[buffer(4)]],
    constant DrawArgs& args [[buffer(5)]],
    threadgroup uint* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    Group g = {tid, lane, simdgroup, simdgroups, shared, shared + 2 * simdgroups, shared + 4 * simdgroups};
    device const DrawRowArgs& row = rows[group.x];
    Tokens tokens = tokens_of(src + ulong(group.x) * args.src_stride, lists, row);
    parts += 4 * ulong(group.x) * args.parts;
    dst += group.x * args.dst_stride;
    Place best = {-INFINITY, none};
    for (uint i = tid; i < args.parts; i += 32 * simdgroups) {
        float v = as_type<float>(parts[4 * i]);
        if (before(v, parts[4 * i + 1], best.value, best.index)) {
            best.value = v;
            best.index = parts[4 * i + 1];
        }
    }
    best = best_of(best, (threadgroup float*)g.best, g.best + simdgroups, lane, simdgroup, simdgroups);
    uint id = drawn(tokens, best, parts, args, row, g);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup float* logit = (threadgroup float*)g.sums;
    if (tid == 0) logit[0] = tokens.logits[id];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint edits = row.edits == none ? 0 : row.edit_count;
    for (uint e = tid; e < edits; e += 32 * simdgroups) {
        device const uint* edit = lists + row.edits + edit_words * e;
        if ((edit[0] & edit_token) == id) logit[0] = as_type<float>(edit[3]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid > 0) return;
    dst[0] = float(id);
    dst[1] = logit[0];
    dst[2] = best.value;
}
