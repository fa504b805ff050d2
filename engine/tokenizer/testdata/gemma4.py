"""Writes gemma4.json: a vocabulary like Gemma 4's, and the ids that Hugging Face's tokenizers make of texts with it.

The parts of the tokenizer are those of transformers' GemmaTokenizer. The vocabulary is trained on the texts of vectors.json.
"""

import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

FOLDER = pathlib.Path(__file__).parent
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>"]
TEXTS = [
    "a\nb",
    "a\n\nb\n\n\nc",
    "\n" * 3,
    "\n" * 9,
    "a " + "\n" * 17 + " b",
    "\n \n\n \n",
    "a\r\n\r\nb",
    "tabs\t\tand  two   spaces    ",
    " leading",
    "▁ a mark and a space",
    "no token for \U0001f9ec or 龘",
    "<|turn>user\nHi there<turn|>\n<|turn>model\n",
    "<bos>text<unk>",
    "<0x0A>",
    "",
]


def main():
    texts = json.loads((FOLDER / "vectors.json").read_text())["texts"] + TEXTS
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    trained = Tokenizer(BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Replace(" ", "▁")
    # No merge of Gemma joins a newline with another character.
    trained.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n+"), "isolated")
    trainer = trainers.BpeTrainer(vocab_size=1100, special_tokens=SPECIAL + bytes_, show_progress=False)
    corpus = [t for t in texts for _ in range(2) if not any(s in t for s in ("\U0001f9ec", "<|", "<0x"))]
    trained.train_from_iterator(corpus + ["\n" * n for n in (2, 3, 4, 5, 8) for _ in range(9)], trainer)
    model = json.loads(trained.to_str())["model"]

    tokenizer = Tokenizer(BPE(model["vocab"], [tuple(m) for m in model["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    data = {
        "tokens": tokens,
        "merges": [" ".join(m) for m in model["merges"]],
        "texts": texts,
        "ids": [tokenizer.encode(t, add_special_tokens=False).ids for t in texts],
        "decoded": [tokenizer.decode(tokenizer.encode(t, add_special_tokens=False).ids, skip_special_tokens=True) for t in texts],
    }
    (FOLDER / "gemma4.json").write_text(json.dumps(data, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
