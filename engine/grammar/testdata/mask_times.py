"""Times llguidance on the masks of BenchmarkVectors, for comparison.

The benchmark writes what it measured with INGOT_RECORD=FILE: the vocabulary, and for each instance the
schema and its tokens. Then, with `pip install llguidance`:

    python mask_times.py FILE
"""

import ctypes
import json
import sys
import time

import llguidance


class Tokens:
    def __init__(self, tokens, ends):
        self.tokens = tokens
        self.eos_token_id = ends[0]
        self.bos_token_id = None
        self.special_token_ids = [i for i, t in enumerate(tokens) if t.startswith(b"\xff")]

    def __call__(self, text):
        return []


def main():
    with open(sys.argv[1]) as f:
        head = json.loads(f.readline())
        tokens = [bytes.fromhex(t) or b"\xff<%d>" % i for i, t in enumerate(head["tokens"])]
        tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens(tokens, head["ends"])))
        tokenizer = tokenizer.with_slices(llguidance.LLTokenizer.json_slices())
        size = (len(tokens) + 31) // 32 * 4
        mask = bytearray(size)
        address = ctypes.addressof((ctypes.c_char * size).from_buffer(mask))
        masks, compiles, refused, failed, last = [], [], 0, 0, None
        defaults = {"whitespace_flexible": False, "key_separator": ":", "item_separator": ",", "coerce_one_of": True}
        for line in f:
            d = json.loads(line)
            if d["name"] != last:
                start = time.thread_time_ns()
                grammar = llguidance.LLMatcher.grammar_from_json_schema(d["schema"], defaults=defaults)
                matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
                compiles.append(time.thread_time_ns() - start)
                last, first = d["name"], matcher
                matcher = first.deep_copy()
            else:
                matcher = first.deep_copy()
            if matcher.is_error():
                refused += 1
                continue
            for token in d["tokens"]:
                start = time.thread_time_ns()
                matcher.unsafe_compute_mask_ptr(address, size)
                masks.append(time.thread_time_ns() - start)
                if not matcher.consume_token(token):
                    failed += 1
                    break
        for name, times in (("mask", masks), ("compile", compiles)):
            times.sort()
            at = [times[min(int(p * len(times)), len(times) - 1)] / 1000 for p in (0.5, 0.9, 0.99, 0.999, 1)]
            mean = sum(times) / len(times) / 1000
            print(f"{name}: {len(times)}, mean {mean:.1f}, p50 %.1f, p90 %.1f, p99 %.1f, p99.9 %.1f, max %.1f us" % tuple(at))
        print(f"{refused} instances refused, {failed} not accepted")


main()
