"""Writes harness.json: prompts, targets, scores and results that lm-evaluation-harness computes for the tasks in cases.py.

python3 -m venv venv && venv/bin/pip install lm-eval==0.4.13 && venv/bin/python record.py

A model that invents answers takes the place of a real one: answers are those of the case, log-probabilities depend on a hash of the
text. The harness does all the rest. Rows are made by hand, so no data set is downloaded."""
import hashlib
import json
import math
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("DISABLE_MULTIPROC", "1")
CACHE = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = CACHE.name

from lm_eval.api.model import LM  # noqa: E402
from lm_eval.evaluator import simple_evaluate  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

import cases  # noqa: E402


class Invented(LM):
    def __init__(self, answers):
        super().__init__()
        self.answers, self.asked, self.seen = answers, [], {}

    tokenizer_name = "invented"

    def chat_template(self, chat_template=False):
        return ""

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return json.dumps([{"messages": chat_history, "continues": not add_generation_prompt}], ensure_ascii=False)

    def text(self, key):
        n = self.seen[key] = self.seen.get(key, -1) + 1
        digest = int.from_bytes(hashlib.sha256(f"{key} {n}".encode()).digest()[:4], "big")
        return self.answers[digest % len(self.answers)]

    def generate_until(self, requests, **kwargs):
        out = []
        for r in requests:
            context, settings = r.args
            answer = self.text(context)
            self.asked.append({"context": context, "settings": settings, "answer": answer})
            out.append(answer)
        return out

    def logprob(self, context, text):
        digest = hashlib.sha256(json.dumps([context, text]).encode()).digest()
        return -(1 + int.from_bytes(digest[:4], "big") % 4096) / 256 - len(text) / 8, digest[4] % 2 == 0

    def loglikelihood(self, requests, **kwargs):
        out = []
        for r in requests:
            context, text = r.args
            value, greedy = self.logprob(context, text)
            self.asked.append({"context": context, "continuation": text, "logprob": value, "greedy": greedy})
            out.append((value, greedy))
        return out

    def loglikelihood_rolling(self, requests, **kwargs):
        out = []
        for r in requests:
            (text,) = r.args
            value, _ = self.logprob("", text)
            self.asked.append({"text": text, "logprob": value})
            out.append(value)
        return out


def plain(v):
    if isinstance(v, dict):
        return {str(k): plain(e) for k, e in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(e) for e in v]
    if hasattr(v, "tolist"):
        v = v.tolist()
        return plain(v) if isinstance(v, list) else v
    if isinstance(v, float) and not math.isfinite(v):
        return str(v)
    return v


def record(name, case):
    with tempfile.TemporaryDirectory() as folder:
        old = os.getcwd()
        os.chdir(folder)
        for file, content in case["files"].items():
            os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
            with open(file, "w") as f:
                f.write(content)
        model = Invented(case.get("answers", [""]))
        manager = TaskManager(include_path=folder, include_defaults=False)
        try:
            r = simple_evaluate(model=model, tasks=[case.get("run", name)], task_manager=manager, num_fewshot=case.get("num_fewshot"),
                                apply_chat_template=case.get("chat", False), fewshot_as_multiturn=case.get("multiturn", False),
                                system_instruction=case.get("system"), bootstrap_iters=case.get("bootstrap", 100_000))
        finally:
            os.chdir(old)
    samples = {}
    for task, list_ in r["samples"].items():
        samples[task] = [{"doc_id": s["doc_id"], "filter": s["filter"], "target": plain(s["target"]), "filtered": plain(s["filtered_resps"]),
                          "scores": {m: plain(s[m]) for m in s["metrics"]}} for s in list_]
    keys = ("alias", "name")
    results = {t: {k: plain(v) for k, v in scores.items() if k not in keys} for t, scores in r["results"].items()}
    # The harness's own functions stay in its package: ours are chosen by their names.
    files = {f: content for f, content in case["files"].items() if not f.endswith(".py")}
    return {"name": name, **case, "files": files, "asked": plain(model.asked), "samples": samples, "results": results}


def main():
    only = sys.argv[1:]
    out = [record(n, c) for n, c in cases.CASES.items() if not only or n in only]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "harness.json")
    if only:
        path = "/dev/stdout"
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in out) + "\n]\n")


main()
