"""Makes the references with which Ingot is compared on trained models. transformers computes them in
float32 from the dequantised weights. A CPU is enough.

    python3 references.py chunks smollm2 FILE.gguf OUT.jsonl.gz     cut the texts into chunks and compute them
    python3 references.py logprobs FILE.gguf IN.jsonl.gz OUT.jsonl.gz   compute existing chunks again, e.g. for another type
    python3 references.py positions smollm2 FILE.gguf OUT.jsonl.gz LENGTH...   the beginnings of the documents
    python3 references.py questions TOKENIZER.json OUT.jsonl.gz   chunks of models/heldout.jsonl, not scored, for types.sh
    python3 references.py tokens smollm2 FILE.gguf OUT.json         ids of the lines of texts and of the chat template
    python3 references.py answers smollm2 FILE.gguf OUT.json        greedy answers to questions.txt

It needs torch, transformers and gguf. A chunk is a line of JSON: its kind, the ids, for every id from number "from" (1) the
log-probability (natural logarithm), and the most probable id at that position.
"""

import gzip
import json
import pathlib
import sys

import torch
import transformers
from tokenizers import Tokenizer, pre_tokenizers

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
LENGTHS = (2048, 512, 128)
# Chunks of each kind: of 2048, 512 and 128 tokens; together about 20,000 tokens.
CHUNKS = {
    "docs": (2, 6, 12),
    "code": (2, 4, 12),
    "prose": (0, 1, 5),
    "chats": (0, 1, 6),
    "world": (0, 1, 2),
    "numbers": (0, 1, 4),
}
DOCS = ("docs/operations.md", "docs/eval.md", "docs/queue.md", "docs/metal.md", "docs/rows.md")
CODE = ("engine/internal/schedule/rows.go", "engine/cpu/kernels/c/attention.c", "engine/tokenizer/*.go", "models/train/*.py", "Makefile")
ANSWER = 60  # tokens of a greedy answer
LAST = 512  # tokens that are scored of a long chunk


def main():
    command, *args = sys.argv[1:]
    torch.set_grad_enabled(False)
    {"chunks": chunks, "logprobs": logprobs, "positions": positions, "questions": questions, "tokens": tokens, "answers": answers}[command](*args)


def chunks(name, file, out):
    tokenizer = load_tokenizer(name, file)
    cut_chunks = []
    for kind, counts in CHUNKS.items():
        ids = tokenizer.encode(text(kind), add_special_tokens=False)
        bos = [tokenizer.bos_token_id] if name.startswith("gemma") else []
        for length, count in zip(LENGTHS, counts):
            for i in range(count):
                body, ids = ids[: length - len(bos)], ids[length - len(bos):]
                assert len(bos) + len(body) == length, f"the texts of kind {kind} are too short"
                cut_chunks.append(((i + 0.5) / count, kind, bos + body))
    cut_chunks.sort(key=lambda c: c[0])  # the beginning of the file is a mixture too
    score(load_model(file), [c[1:] for c in cut_chunks], out)


def logprobs(file, chunks_file, out):
    with gzip.open(chunks_file, "rt") as lines:
        cut_chunks = [(c["kind"], c["ids"]) for c in map(json.loads, lines)]
    score(load_model(file), cut_chunks, out)


def positions(name, file, out, *lengths):
    """Writes a chunk for each length. They begin alike, and of each only the last LAST tokens are scored."""
    tokenizer = load_tokenizer(name, file)
    longest = max(map(int, lengths))
    ids = tokenizer.encode("".join(p.read_text() for p in sorted(ROOT.glob("docs/*.md"))), add_special_tokens=False)
    bos = [tokenizer.bos_token_id] if name.startswith("gemma") else []
    ids = (bos + ids)[:longest]
    assert len(ids) == longest, "the documents are too short"
    model = load_model(file)
    hidden = model.model(torch.tensor([ids])).last_hidden_state[0]
    with gzip.GzipFile(out, "wb", mtime=0) as f:
        for length in map(int, lengths):
            start = length - LAST
            of, best = head(model, hidden[start - 1 : length - 1], ids[start:length])
            write_chunk(f, {"kind": "docs", "from": start, "ids": ids[:length]}, of, best)


def questions(tokenizer_file, out):
    """Writes chunks for models with the bundled models' vocabulary: whole questions with their answers."""
    tokenizer = Tokenizer.from_file(tokenizer_file)
    with gzip.GzipFile(out, "wb", mtime=0) as f:
        for line in (ROOT / "models/heldout.jsonl").read_text().splitlines():
            q = json.loads(line)
            text = f"[gMASK]<sop><|user|>{q['question']}<|assistant|></think>{q['answer']}<|user|>"
            f.write((json.dumps({"kind": q["family"], "ids": tokenizer.encode(text, add_special_tokens=False).ids}) + "\n").encode())


def score(model, cut_chunks, out):
    # No time in the header: the same values give the same bytes.
    with gzip.GzipFile(out, "wb", mtime=0) as f:
        for kind, ids in cut_chunks:
            hidden = model.model(torch.tensor([ids])).last_hidden_state[0, :-1]
            write_chunk(f, {"kind": kind, "ids": ids}, *head(model, hidden, ids[1:]))


def head(model, hidden, wanted):
    """Returns the log-probability of each wanted token, and the most probable token at its position."""
    of, best = [], []
    for part, ids in zip(hidden.split(256), torch.tensor(wanted).split(256)):  # logits of 262k tokens are large
        logits = model.lm_head(part).double()
        of += (logits.gather(1, ids[:, None])[:, 0] - logits.logsumexp(1)).tolist()
        best += logits.argmax(1).tolist()
    return of, best


def write_chunk(f, chunk, of, best):
    chunk |= {"logprobs": [round(x, 5) for x in of], "best": best}
    f.write((json.dumps(chunk, separators=(",", ":")) + "\n").encode())
    f.flush()
    print(chunk["kind"], len(chunk["ids"]), sum(of) / len(of), flush=True)


def tokens(name, file, out):
    tokenizer = load_tokenizer(name, file)
    lines = [line for kind in ("prose", "world", "numbers", "code") for line in text(kind).splitlines(keepends=True)[:120]]
    cases = {"texts": [[line, tokenizer.encode(line, add_special_tokens=False)] for line in lines]}
    if tokenizer.chat_template:
        cases["chats"] = [
            [messages, tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)] for messages in conversations()
        ]
    pathlib.Path(out).write_text(json.dumps(cases, ensure_ascii=False, separators=(",", ":")))


def answers(name, file, out):
    tokenizer, model = load_tokenizer(name, file), load_model(file)
    cases = []
    for question in (HERE / "texts/questions.txt").read_text().splitlines():
        if tokenizer.chat_template:
            ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False)
        else:
            ids = tokenizer.encode(f"Question: {question}\nAnswer:")
        made = greedy(model, ids, tokenizer.eos_token_id)
        cases.append({"question": question, "prompt": ids, **made, "text": tokenizer.decode(made["tokens"], skip_special_tokens=True)})
        print(question, "->", cases[-1]["text"], flush=True)
    pathlib.Path(out).write_text(json.dumps(cases, ensure_ascii=False, separators=(",", ":")))


def greedy(model, ids, stop):
    """Returns the greedy answer, and the difference of the two highest logits before each of its tokens."""
    tokens, gaps, cache, step = [], [], None, ids
    while len(tokens) < ANSWER and (not tokens or tokens[-1] != stop):
        result = model(torch.tensor([step]), past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = result.past_key_values
        top = result.logits[0, -1].topk(2)
        tokens.append(top.indices[0].item())
        gaps.append(round((top.values[0] - top.values[1]).item(), 4))
        step = tokens[-1:]
    return {"tokens": tokens, "gaps": gaps}


def text(kind):
    match kind:
        case "docs":
            return "".join((ROOT / name).read_text() for name in DOCS)
        case "code":
            return "".join(p.read_text() for name in CODE for p in sorted(ROOT.glob(name)))
        case "chats":
            return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for chat in conversations() for m in chat)
        case "numbers":
            return numbers()
    return (HERE / "texts" / f"{kind}.txt").read_text()


def conversations():
    return [[{"role": r, "content": c} for r, c in chat] for chat in json.loads((HERE / "texts/chats.json").read_text())]


def numbers():
    """Returns tables of numbers, dates and sums."""
    lines = ["id,date,amount,share,balance\n"]
    balance = 1000.0
    for i in range(1, 40):
        amount = (i * 7919 % 20011) / 100 - 100
        balance += amount
        lines.append(f"{i:03},2024-{i % 12 + 1:02}-{i % 28 + 1:02},{amount:.2f},{amount / balance:.1%},{balance:.2f}\n")
    lines += [f"{i} x {i + 7} = {i * (i + 7)}; {i}^2 = {i * i}; sqrt({i}) = {i ** 0.5:.6f}; 1/{i} = {1 / i:.8f}\n" for i in range(3, 60)]
    return "".join(lines)


def load_model(file):
    path = pathlib.Path(file).resolve()
    return transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()


def load_tokenizer(name, file):
    path = pathlib.Path(file).resolve()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    if name == "smollm2":  # transformers loses the rule that splits digits
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
        )
    return tokenizer


if __name__ == "__main__":
    main()
