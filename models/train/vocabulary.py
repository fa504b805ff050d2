"""The vocabulary both models share: byte-level BPE with GLM-4's split rule, and the chat form of a question."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 2048
CONTEXT = 4096

# How text is split before BPE; GGUF calls this rule "glm4".
SPLIT_RULE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)

THINKING = ("<think>", "</think>")
SPECIAL = [
    "<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>",
    "<|observation|>", *THINKING,
]
STOP = ("<|endoftext|>", "<|user|>", "<|observation|>")

CHAT_TEMPLATE = (
    "[gMASK]<sop>{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|></think>{{ m.content }}"
    "{% elif m.role == 'system' %}<|system|>{{ m.content }}{% else %}<|user|>{{ m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|></think>{% endif %}"
)


def prompt(question):
    """What CHAT_TEMPLATE renders for one user message with the generation prompt."""
    return f"[gMASK]<sop><|user|>{question}<|assistant|></think>"


def document_text(question, answer):
    """A training document: the prompt, the answer, and the token that ends it."""
    return prompt(question) + answer + "<|user|>"


def train_tokenizer(pairs):
    """Learns the merges from (question, answer) pairs; the 12 special tokens take the last ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT_RULE), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    # The whole byte alphabet is included, so that any text can be encoded, whatever the corpus lacks.
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        min_frequency=2,
    )
    tokenizer.train_from_iterator((f"{question}\n{answer}" for question, answer in pairs), trainer)
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    if tokenizer.get_vocab_size() != VOCAB_SIZE:
        raise SystemExit(f"the corpus gives {tokenizer.get_vocab_size()} tokens, not {VOCAB_SIZE}: use more documents")
    return tokenizer


def stop_ids(tokenizer):
    return {tokenizer.token_to_id(s) for s in STOP}
