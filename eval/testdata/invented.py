"""A model that invents its answers, with which record.py and share.py run lm-evaluation-harness."""
import hashlib
import json
import math

from lm_eval.api.model import LM


class Invented(LM):
    """Answers are those of a list, chosen by a hash of the prompt; log-probabilities depend on a hash of the text."""

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
    """Returns a value of the harness as JSON can hold it."""
    if isinstance(v, dict):
        return {str(k): plain(e) for k, e in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(e) for e in v]
    if hasattr(v, "tolist"):
        return plain(v.tolist())
    if isinstance(v, float) and not math.isfinite(v):
        return str(v)
    return v


def samples(logged):
    """Returns the logged samples of tasks as harness.json has them."""
    return {task: [{"doc_id": s["doc_id"], "filter": s["filter"], "target": plain(s["target"]), "filtered": plain(s["filtered_resps"]),
                    "scores": {m: plain(s[m]) for m in s["metrics"]}} for s in list_] for task, list_ in logged.items()}


def results(all_):
    return {t: {k: plain(v) for k, v in scores.items() if k not in ("alias", "name")} for t, scores in all_.items()}
