#!/usr/bin/env python3
"""Writes a file for each model family: a small vocabulary, and chats with the text and the ids that Hugging Face's transformers and tokenizers
make of them.

    python3 families.py TEMPLATES [FAMILY...]    (pip install transformers tokenizers jinja2)

TEMPLATES is the folder templates of INGOT_VECTORS. A file names the template of its family there, or has a short template itself.

The vocabularies are trained here, on the documents of this repository and on the chats. Of the published tokenizers, they have the split rule, the
normalizer and the special tokens with their attributes. A file has only the tokens that are a part of one of its texts, and the merges that
make them: no other token can occur while one of these texts is encoded, so that the ids are those of the whole vocabulary, in another numbering.
"""

import datetime
import json
import pathlib
import re
import sys
import unicodedata

import transformers.utils.chat_template_utils as chat_templates
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

TEMPLATES = pathlib.Path(sys.argv[1])
FOLDER = pathlib.Path(__file__).parent
CONTROL, USER_DEFINED, NORMAL, UNKNOWN, BYTE = 3, 4, 1, 2, 6
DATE = "2024-07-26"


class Now(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(DATE + "T12:00:00")


chat_templates.datetime = Now

HARD = (
    "\n\n Caf\u00e9, cafe\u0301, \u212b, \u1112\u1161\u11ab\uae00, \u65e5\u672c\u8a9e. I'VE seen it's 3.14159 or 1000000!\t \n\n"
    "    def f(x):\r\n\t    return x*2  # \U0001f389\U0001f469\u200d\U0001f469\u200d\U0001f467\n \n"
    "camelCASEWords x\u0308y \u0928\u092e\u0938\u094d\u0924\u0947 ab\u6f22\u5b57\u304bcd http://a.b/?c=d/\n/e -x _y"
)


def chats(marks):
    system, ask, tell = (lambda text, role=role: {"role": role, "content": text} for role in ("system", "user", "assistant"))
    return [
        [ask("Hello, world!")],
        [ask(" \n Hi\n")],
        [system("\n Be brief.  \n"), ask("HI"), tell(" Sure.\n"), ask(HARD)],
        [ask("".join(f"{mark} \n x {mark}\n" for mark in marks)), tell("\n"), ask("1 + 1 = ?")],
    ]


def documents():
    return [line for path in sorted((FOLDER / "../../../../docs").glob("*.md")) for line in path.read_text().splitlines(keepends=True)]


def asked():
    return [m["content"] for chat in chats([]) for m in chat]


def added(text, left=False, right=False, special=True, normalized=False):
    return AddedToken(text, lstrip=left, rstrip=right, normalized=normalized, special=special)


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)


def merges_of(pre_tokenizer, texts, alphabet, count):
    t = Tokenizer(BPE())
    t.pre_tokenizer = pre_tokenizer
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=len(alphabet) + count, initial_alphabet=alphabet, show_progress=False))
    return [tuple(m) for m in json.loads(t.to_str())["model"]["merges"]]


# Tokens that no merge makes. A family whose tokenizer takes a piece that is a token as it is, ignoring the merges, has them in its texts.
WHOLE = ["Hello", "\u0120world", "\u0120seen", "\u0120return"]


def bpe(rules, tokens, nfc=False, ignore_merges=None):
    """A tokenizer of byte-level BPE. Half of the merges are trained on pieces of the split rules, the others on texts that are not split, so that
    they also join pieces: a piece that is split elsewhere gets other tokens. For ignore_merges None, the vocabulary has no tokens of WHOLE."""
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Sequence([*(pre_tokenizers.Split(Regex(r), "isolated") for r in rules), bytes_])
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inside = merges_of(split, documents() + 40 * asked(), alphabet, 600)
    across = merges_of(bytes_, asked(), alphabet, 600)
    merges = list(dict.fromkeys(m for pair in zip(inside, across) for m in pair))
    vocab = alphabet + list(dict.fromkeys(a + b for a, b in merges))
    if ignore_merges is not None:
        merges = [(a, b) for a, b in merges if a + b not in WHOLE]
        vocab += [t for t in WHOLE if t not in vocab]
    t = Tokenizer(BPE({x: i for i, x in enumerate(vocab)}, merges, ignore_merges=bool(ignore_merges)))
    t.normalizer = normalizers.NFC() if nfc else None
    t.pre_tokenizer = split
    for token in tokens:  # one by one: a call with tokens of both kinds puts the special ones first
        (t.add_special_tokens if token.special else t.add_tokens)([token])
    return t


def sentencepiece(normalizer, rule, tokens, first=()):
    """A tokenizer as transformers converts one of SentencePiece: the merges are all pairs of tokens that make a token, the token with the best
    score first. Characters that are rare in the texts have no token, but bytes."""
    texts = [normalizer.normalize_str(x) for x in documents() + 40 * asked()]
    often = sorted(set("".join(texts)) - set("\U0001f389\U0001f469\U0001f467\u200d\u8a9e\u212b\u1161\r"))
    pieces = [*first, *(a + b for a, b in merges_of(pre_tokenizers.Split(Regex(rule), "isolated"), texts, often, 700))]
    pieces = [*dict.fromkeys(x for x in pieces if set(x) <= set(often))]
    plain = [x.content for x in tokens if x.content not in pieces and len(x.content) > 1]
    vocab = [*plain, *(f"<0x{b:02X}>" for b in range(256)), *pieces, *often]
    ids = {x: i for i, x in enumerate(vocab)}
    scores = {x: -float(i) for i, x in enumerate(vocab)}
    pairs = [(ids[x], ids[x[:k]], ids[x[k:]], x[:k], x[k:]) for x in pieces for k in range(1, len(x)) if x[:k] in ids and x[k:] in ids]
    t = Tokenizer(BPE(ids, [(a, b) for *_, a, b in sorted(pairs)], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizer
    for token in tokens:
        (t.add_special_tokens if token.special else t.add_tokens)([token])
    return t, scores


def phi3():
    bare = ["<unk>", "<s>", "<|endoftext|>"]
    names = ["<unk>", "<s>", "</s>", "<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"]
    tokens = [added(x, right=x not in bare, special=x != "</s>") for x in names]
    normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    return sentencepiece(normalizer, "\u2581*[^\u2581\n]+|\u2581+|\n", tokens)


def gemma():
    runs = [c * n for c in "\n\u2581\t" for n in range(1 + (c == "\u2581"), 32)]
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    tokens = [added(x) for x in names] + [added(x, special=False) for x in ["<mask>", *runs, "<b>", "</b>"]]
    t, scores = sentencepiece(normalizers.Replace(" ", "\u2581"), "\n+|\t+|\u2581\u2581+", tokens, [x for x in runs if len(x) > 1])
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return t, scores


def qwen(rule, *more):
    tokens = [added(x) for x in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    return bpe([rule], [*tokens, *(added(x, special=False) for x in ("<tool_call>", "</tool_call>", *more))], nfc=True, ignore_merges=False)


def phi4():
    names = ["<|dummy_0|>", "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", *(f"<|dummy_{i}|>" for i in range(1, 5))]
    return bpe([LLAMA3], [added(x, True, True) for x in [*names, "<|im_start|>", "<|im_end|>", "<|im_sep|>"]])


def phi4_mini():
    right = ["<|assistant|>", "<|end|>", "<|user|>", "<|system|>"]
    names = ["<|endoftext|>", "<|endofprompt|>", *right, "<|tool|>", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>", "<|tool_response|>", "<|tag|>"]
    return bpe([O200K], [added(x, right=x in right or x == "<|tag|>") for x in names])


def gpt_oss():
    names = ["startoftext", "endoftext", "return", "constrain", "channel", "start", "end", "message", "call", "endofprompt"]
    return bpe([O200K], [added(f"<|{x}|>") for x in names])


def deepseek():
    names = ["User", "Assistant", "tool\u2581calls\u2581begin", "tool\u2581calls\u2581end", "tool\u2581output\u2581begin", "tool\u2581output\u2581end"]
    tokens = [added(f"<\uff5c{x}\u2581of\u2581sentence\uff5c>") for x in ("begin", "end")]
    tokens += [added(f"<\uff5c{x}\uff5c>", special=False, normalized=True) for x in names]
    return bpe(DEEPSEEK3, [*tokens, *(added(x, special=False, normalized=True) for x in ("<think>", "</think>"))], ignore_merges=False)


def granite():
    names = ["<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"]
    return bpe([r"\p{N}", GPT2], [added(x) for x in names], ignore_merges=False)


def llama3():
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"]
    return bpe([LLAMA3], [added(x) for x in names], ignore_merges=True)


def glm4():
    names = ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<think>", "</think>"]
    return bpe([LLAMA3], [added(x) for x in names], ignore_merges=False)


def smollm3():
    return bpe([LLAMA3], [added(x) for x in ("<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>")])


PHI4 = (
    "{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}"
    "{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == "
    "'assistant') %}{{'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"
)
PHI4_MINI = (
    "{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}"
    "{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"
)
OLMO2 = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}"
    "{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}"
    "{% if not loop.last %}{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}{% else %}"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% endif %}"
    "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}"
)

BEGIN, END = "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"

# name: tokenizer, template, general.architecture, general.name, tokenizer.ggml.pre, bos, eos, texts of tokens for the chats
FAMILIES = {
    "phi3": (phi3, "microsoft-Phi-3.5-mini-instruct.jinja", "phi3", "Phi 3.5 Mini Instruct", "default", "<s>", "<|endoftext|>", ["<|end|>", "</s>", "<|user|>"]),
    "phi4": (phi4, PHI4, "phi3", "Phi 4", "dbrx", "<|endoftext|>", "<|im_end|>", ["<|im_end|>", "<|endoftext|>"]),
    "phi4-mini": (phi4_mini, PHI4_MINI, "phi3", "Phi 4 Mini Instruct", "gpt-4o", "<|endoftext|>", "<|endoftext|>", ["<|end|>", "<|tool|>"]),
    "qwen2": (lambda: qwen(QWEN2), "Qwen-Qwen2.5-7B-Instruct.jinja", "qwen2", "Qwen2.5", "qwen2", None, "<|im_end|>", ["<|im_end|>", "<tool_call>"]),
    "qwen3": (lambda: qwen(QWEN2, "<think>", "</think>"), "Qwen-Qwen3-0.6B.jinja", "qwen3", "Qwen3", "qwen2", None, "<|im_end|>", ["<|im_end|>", "<think>"]),
    "qwen35": (lambda: qwen(QWEN35, "<think>", "</think>"), "Qwen3.5-4B.jinja", "qwen35", "Qwen3.5", "qwen35", None, "<|im_end|>", ["<|im_end|>", "<think>"]),
    "gpt-oss": (gpt_oss, "openai-gpt-oss-120b.jinja", "gpt-oss", "gpt-oss", "gpt-4o", "<|startoftext|>", "<|return|>", ["<|end|>", "<|channel|>"]),
    "deepseek": (deepseek, "deepseek-ai-DeepSeek-V3.1.jinja", "deepseek2", "DeepSeek", "deepseek-v3", BEGIN, END, ["<\uff5cUser\uff5c>", END]),
    "granite": (granite, "ibm-granite-granite-3.3-2B-Instruct.jinja", "granite", "Granite", "refact", "<|endoftext|>", "<|endoftext|>", ["<|end_of_role|>", "<|endoftext|>"]),
    "glm4": (glm4, "GLM-4.7-Flash.jinja", "glm4moe", "GLM", "glm4", None, "<|endoftext|>", ["<|user|>", "</think>"]),
    "olmo2": (lambda: bpe([LLAMA3], [added("<|endoftext|>")]), OLMO2, "olmo2", "OLMo 2", "dbrx", "<|endoftext|>", "<|endoftext|>", ["<|endoftext|>"]),
    "llama3": (llama3, "meta-llama-Llama-3.1-8B-Instruct.jinja", "llama", "Llama 3.1", "llama-bpe", "<|begin_of_text|>", "<|eot_id|>", ["<|eot_id|>", "<|begin_of_text|>"]),
    "smollm3": (smollm3, "HuggingFaceTB-SmolLM3-3B.jinja", "smollm3", "SmolLM3", "smaug-bpe", None, "<|im_end|>", ["<|im_end|>"]),
    "gemma2": (gemma, "google-gemma-2-2b-it.jinja", "gemma2", "Gemma 2", "default", "<bos>", "<eos>", ["<end_of_turn>", "<b>"]),
}


def byte_level():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {}, 0
    for b in range(256):
        table[b] = chr(b if b in kept else 256 + extra)
        extra += b not in kept
    return table


def forms(texts, special, spm):
    """All texts in which a token can occur: the parts between special tokens, normalized or not and with or without the space at their ends, with
    bytes or spaces as the vocabulary writes them."""
    table = byte_level()
    for text in texts:
        for part in re.split("|".join(map(re.escape, special)), text):
            for t in (part, part.strip(), unicodedata.normalize("NFC", part)):
                yield "\u2581" + t.replace(" ", "\u2581") if spm else "".join(table[b] for b in t.encode())


def write(name):
    make, source, arch, title, pre, bos, eos, marks = FAMILIES[name]
    tok, scores = made if isinstance(made := make(), tuple) else (made, None)
    held = {"template_file": source} if source.endswith(".jinja") else {"template": source}
    source = (TEMPLATES / source).read_text() if "template_file" in held else source
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, bos_token=bos, eos_token=eos, chat_template=source)
    model = json.loads(tok.to_str())["model"]
    merges = model["merges"]
    cases = []
    for chat in chats(marks):
        try:
            text = fast.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        except Exception:  # the template has no system messages
            chat = chat[1:]
            text = fast.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        cases.append({"messages": chat, "text": text, "ids": tok.encode(text, add_special_tokens=False).ids})
    types = {t.content: CONTROL if t.special else USER_DEFINED for t in tok.get_added_tokens_decoder().values()}
    if scores is not None:
        types |= {f"<0x{b:02X}>": BYTE for b in range(256)} | {model["unk_token"]: UNKNOWN}
    single = set(byte_level().values()) if scores is None else set()
    texts = [c["text"] for c in cases]
    every = "\n".join(forms(texts, [t for t in types if any(t in x for x in texts)] or ["\0"], scores is not None))
    vocab = sorted(tok.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
    keep = [
        (t, i) for t, i in vocab
        if t in single or types.get(t) in (BYTE, UNKNOWN) or t in (bos, eos)
        or t in every or t in types and any(t in x for x in texts)
    ]
    index = {i: k for k, (_, i) in enumerate(keep)}
    kept = {t for t, _ in keep}
    for c in cases:
        c["ids"] = [index[i] for i in c["ids"]]
    out = {
        "architecture": arch, "name": title, "model": "gpt2" if scores is None else "llama", "pre": pre,
        "bos": next((k for k, (t, _) in enumerate(keep) if t == bos), -1), "eos": next(k for k, (t, _) in enumerate(keep) if t == eos),
        "space_prefix": name == "phi3", "date": DATE, **held, "cases": cases,
        "tokens": [t.replace("\u2581", " ") if types.get(t) == USER_DEFINED and scores is not None else t for t, _ in keep], "types": [types.get(t, NORMAL) for t, _ in keep],
        "merges": [f"{a} {b}" for a, b in merges if a + b in kept and a in kept and b in kept] if scores is None else [],
        "scores": [] if scores is None else [scores.get(t, 0) for t, _ in keep],
    }
    path = FOLDER / "families" / (name + ".json")
    path.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size, [len(c["ids"]) for c in cases])


for family in sys.argv[2:] or FAMILIES:
    write(family)
