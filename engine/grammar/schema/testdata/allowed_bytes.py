"""Reads lines {"schema": ..., "prefix": base64} and writes the bytes that llguidance allows after each prefix.

A line of the output is {"allowed": [...]}, where 256 is the end of the answer, or {"refused": reason}.
"""

import base64
import json
import sys

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

END = 256


class Bytes:
    """A tokenizer whose tokens are the bytes."""

    eos_token_id = END
    bos_token_id = None
    tokens = [bytes([i]) for i in range(256)] + [b"<|end|>"]
    special_token_ids = [END]

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())


# The white space of Ingot's answers. oneOf is anyOf: Ingot keeps it exactly, and the prefixes are of valid values.
OPTIONS = {"whitespace_flexible": False, "key_separator": ": ?", "item_separator": ", ?", "coerce_one_of": True}
TOKENIZER = LLTokenizer(TokenizerWrapper(Bytes()))


def allowed(schema, prefix):
    matcher = LLMatcher(TOKENIZER, LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=OPTIONS), log_level=0)
    if matcher.is_error():
        return {"refused": matcher.get_error()}
    if matcher.try_consume_tokens(list(prefix)) != len(prefix):
        return {"refused": "the prefix is not allowed"}
    mask = matcher.compute_bitmask()
    return {"allowed": [i for i in range(END + 1) if mask[i // 8] >> (i % 8) & 1]}


for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps(allowed(question["schema"], base64.b64decode(question["prefix"] or ""))), flush=True)
