"""Compares `ingot eval` with lm-evaluation-harness on a trained model: tasks of four kinds, 100 documents each.

    python3 harness.py smollm2|gemma3 FILE.gguf FOLDER [DOCUMENTS]

It needs lm-eval[api] 0.4.13, torch, transformers and gguf, and `ingot` in the PATH. The tasks are answered

- by `ingot eval run`,
- by the harness through `ingot serve`: completions with the tokenizers remote, huggingface and none, and chats of SmolLM2,
- by the harness on transformers, in float32 from the dequantised weights.

The first two must be equal to the last digit. The third has other rounding: a document's log-probability per token may differ by
0.015 on average, and at most 2 of 100 documents of a task may be decided otherwise; they are listed. FOLDER gets the tasks and runs.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DISABLE_MULTIPROC": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch  # noqa: E402
import yaml  # noqa: E402
from lm_eval.evaluator import simple_evaluate  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

import references  # noqa: E402

MEAN = 0.015  # of the differences of log-probabilities per token
OTHERWISE = 0.02  # share of documents that may be decided otherwise
SHOTS = 20

TASKS = {
    "pick": """output_type: multiple_choice
num_fewshot: 2
doc_to_text: "{{start}}"
doc_to_choice: ends
doc_to_target: right
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "word": """output_type: loglikelihood
doc_to_text: "{{text.split(' ')[:-1] | join(' ')}}"
doc_to_target: "{{' ' + text.split(' ')[-1]}}"
metric_list: [{metric: acc}, {metric: perplexity}]
""",
    "rolling": """output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: text
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]
""",
    "sums": r"""output_type: generate_until
num_fewshot: 2
doc_to_text: "Question: What is {{a}} plus {{b}}?\nAnswer:"
doc_to_target: "{{a}} plus {{b}} is {{a + b}}."
generation_kwargs: {until: ["\n", "Question:"], max_gen_toks: 24, do_sample: false, temperature: 0.0}
filter_list:
- {name: strict, filter: [{function: regex, regex_pattern: 'is (\d+)'}, {function: take_first}]}
- {name: last, filter: [{function: regex, regex_pattern: '\d+', group_select: -1}, {function: take_first}]}
metric_list:
- {metric: exact_match, aggregation: mean, higher_is_better: true, regexes_to_ignore: ['.* is ', '\.']}
""",
}


def sentences():
    texts = "\n\n".join((references.HERE / "texts" / f"{name}.txt").read_text() for name in ("prose", "world"))
    texts += "\n\n" + "\n\n".join(p.read_text() for p in sorted((references.ROOT / "docs/decisions").glob("*.md")))
    found = []
    for paragraph in re.split(r"\n\n+", texts):
        for sentence in re.split(r"(?<=[.!?]) +", " ".join(paragraph.split())):
            if re.fullmatch(r"[A-Z][^`|#*\[\]]+[.!?]", sentence) and 12 <= len(sentence.split()) <= 40:
                found.append(sentence)
    return found


def rows(documents):
    found, n = sentences(), documents + SHOTS
    assert len(found) >= n + 3, f"the texts have only {len(found)} sentences"
    cut = lambda s: (" ".join(s.split()[: len(s.split()) // 2]), " ".join(s.split()[len(s.split()) // 2 :]))  # noqa: E731
    picks = []
    for i in range(n):
        ends = [cut(found[i + k])[1] for k in range(4)]
        picks.append({"start": cut(found[i])[0], "ends": ends[-(i % 4) :] + ends[: -(i % 4)] if i % 4 else ends, "right": i % 4})
    return {
        "pick": picks,
        "word": [{"text": found[i].rstrip(".!?")} for i in range(n)],
        "rolling": [{"text": " ".join(found[i : i + 3])} for i in range(n)],
        "sums": [{"a": 3 + i * 7 % 41, "b": 2 + i * 11 % 29} for i in range(n)],
    }


def write_tasks(folder, documents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, docs in rows(documents).items():
        for split, part in (("train", docs[documents:]), ("test", docs[:documents])):
            (folder / f"{name}-{split}.jsonl").write_text("".join(json.dumps(d, ensure_ascii=False) + "\n" for d in part))
        (folder / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs:\n  data_files: {{train: {folder}/{name}-train.jsonl, test: {folder}/{name}-test.jsonl}}\n"
            "training_split: train\ntest_split: test\n" + TASKS[name])


def ingot(folder, file, names, run, *flags):
    subprocess.run(["ingot", "eval", "run", *(str(folder / "tasks" / f"{n}.yaml") for n in names), "-o", str(folder / run), "--model", file, *flags], check=True)
    out = {}
    for name in names:
        for line in (folder / run / f"samples_{name}.jsonl").read_text().splitlines():
            s = json.loads(line)
            assert not s.get("failed"), s
            values = s.get("logprobs") or s.get("resps") or [s["logprob"]]
            out[name, s["filter"], s["doc_id"]] = values, decided(s["scores"])
    return out


def decided(scores):
    return {m: float(v) for m, v in scores.items() if m in ("acc", "acc_norm", "exact_match")}


def harness(folder, names, model, description="", **more):
    manager = TaskManager(include_path=str(folder / "tasks"), include_defaults=False)
    tasks = [yaml.safe_load((folder / "tasks" / f"{n}.yaml").read_text()) | {"description": description} if description else n for n in names]
    results = simple_evaluate(model=model, tasks=tasks, task_manager=manager, bootstrap_iters=0, **more)
    out = {}
    for name, samples in results["samples"].items():
        for s in samples:
            values = [r[0] for r in s["resps"]]
            values = [v[0] if isinstance(v, (list, tuple)) else v for v in values]
            out[name, s["filter"], s["doc_id"]] = values, decided({m: s[m] for m in s["metrics"]})
    return out


class Server:
    """`ingot serve` on a free port."""

    def __init__(self, file, folder):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{s.getsockname()[1]}"
        self.log = open(folder / "serve.log", "w")
        address = self.url.removeprefix("http://")
        self.process = subprocess.Popen(["ingot", "serve", "--model", file, "--listen", address], stdout=self.log, stderr=self.log)

    def __enter__(self):
        for _ in range(240):
            try:
                urllib.request.urlopen(self.url + "/v1/models").read()
                return self
            except urllib.error.URLError:
                assert self.process.poll() is None, "ingot serve ended: see serve.log"
                time.sleep(0.5)
        raise TimeoutError("ingot serve does not answer")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def model(self):
        return json.load(urllib.request.urlopen(self.url + "/v1/models"))["data"][0]["id"]


def equal(what, got, want):
    wrong = [k for k in want if got.get(k) != want[k]]
    assert got.keys() == want.keys(), f"{what}: other documents"
    print(f"{what}: {len(want) - len(wrong)} of {len(want)} equal to the last digit")
    for key in wrong[:10]:
        print("  ", *key, "ingot:", want[key], "harness:", got[key])
    return not wrong


def close(got, want, tokens):
    ok = True
    for name in TASKS:
        keys = [k for k in want if k[0] == name]
        otherwise = [k for k in keys if got[k][1] != want[k][1]]
        line = f"transformers, {name}: {len(keys)} results, {len(otherwise)} decided otherwise"
        if name != "sums":
            each = [abs(sum(want[k][0]) - sum(got[k][0])) / tokens[k[0], k[2]] for k in keys]
            mean = sum(each) / len(each)
            line += f", log-probability per token differs by {mean:.4f} on average, {max(each):.4f} at most"
            ok = ok and mean <= MEAN
        print(line)
        for k in otherwise:
            print("  ", *k, "ingot:", want[k], "transformers:", got[k])
        ok = ok and len({k[2] for k in otherwise}) <= OTHERWISE * len({k[2] for k in keys})
    return ok


def lengths(folder, tokenizer):
    """Returns the number of scored tokens of each document."""
    count = lambda text: len(tokenizer.encode(text, add_special_tokens=False))  # noqa: E731
    out = {}
    for name, parts in (("pick", lambda d: [" " + e for e in d["ends"]]), ("word", lambda d: [" " + d["text"].split(" ")[-1]]), ("rolling", lambda d: [d["text"]])):
        for i, line in enumerate((folder / f"tasks/{name}-test.jsonl").read_text().splitlines()):
            out[name, i] = sum(map(count, parts(json.loads(line))))
    return out


def main():
    name, file, folder, *rest = sys.argv[1:]
    folder = pathlib.Path(folder).resolve()
    torch.set_grad_enabled(False)
    write_tasks(folder / "tasks", int(rest[0]) if rest else 100)
    tokenizer = references.load_tokenizer(name, file)
    tokenizer.save_pretrained(folder / "tokenizer")
    bos = tokenizer.bos_token if name.startswith("gemma") else ""  # SmolLM2's prompts have no BOS
    chats = tokenizer.chat_template is not None

    want = ingot(folder, file, list(TASKS), "run")
    ok = True
    with Server(file, folder) as server:
        args = {"base_url": server.url + "/v1/completions", "model": server.model(), "max_length": 8192, "num_concurrent": 16}

        def completions(what, names, description="", **more):
            got = harness(folder, names, "local-completions", description, model_args=args | more)
            return equal(f"completions, {what}, {' '.join(names)}", got, {k: v for k, v in want.items() if k[0] in names})

        contexts = [n for n in TASKS if n != "rolling"]  # the harness puts BOS before a rolling text by itself
        ok &= completions("tokenizer remote", contexts, bos, tokenizer_backend="remote")
        ok &= completions("tokenizer remote", ["rolling"], tokenizer_backend="remote")
        local = {"tokenizer_backend": "huggingface", "tokenizer": str(folder / "tokenizer")}
        ok &= completions("tokenizer huggingface", contexts, **local, add_bos_token=bool(bos))
        ok &= completions("tokenizer huggingface", ["rolling"], **local)
        ok &= completions("no tokenizer", ["sums"], tokenizer_backend="none", tokenized_requests=False)
        if chats:
            got = harness(folder, ["sums"], "local-chat-completions", model_args=args | {"base_url": server.url + "/v1/chat/completions"},
                          apply_chat_template=True, fewshot_as_multiturn=True)
            ok &= equal("chat completions, sums", got, ingot(folder, file, ["sums"], "chats", "--chat"))
    model, got = references.load_model(file), {}
    for names, add in ((contexts, bool(bos)), (["rolling"], False)):
        got |= harness(folder, names, HFLM(pretrained=model, tokenizer=tokenizer, backend="causal", batch_size=1, add_bos_token=add))
    ok &= close(got, want, lengths(folder, tokenizer))
    sys.exit(not ok)


main()
