"""Writes harness.json: prompts, targets, scores and results that lm-evaluation-harness computes for the tasks in cases.py.

python3 -m venv venv && venv/bin/pip install lm-eval==0.4.13 && venv/bin/python record.py

A model that invents answers takes the place of a real one: answers are those of the case, log-probabilities depend on a hash of the
text. The harness does all the rest. Rows are made by hand, so no data set is downloaded."""
import json
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("DISABLE_MULTIPROC", "1")
CACHE = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = CACHE.name

from lm_eval.evaluator import simple_evaluate  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

import cases  # noqa: E402
import invented  # noqa: E402


def record(name, case):
    with tempfile.TemporaryDirectory() as folder:
        old = os.getcwd()
        os.chdir(folder)
        for file, content in case["files"].items():
            os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
            with open(file, "w") as f:
                f.write(content)
        model = invented.Invented(case.get("answers", [""]))
        manager = TaskManager(include_path=folder, include_defaults=False)
        try:
            r = simple_evaluate(model=model, tasks=[case.get("run", name)], task_manager=manager, num_fewshot=case.get("num_fewshot"),
                                apply_chat_template=case.get("chat", False), fewshot_as_multiturn=case.get("multiturn", False),
                                system_instruction=case.get("system"), bootstrap_iters=case.get("bootstrap", 100_000))
        finally:
            os.chdir(old)
    # The harness's own functions stay in its package: those in Go are chosen by their names.
    files = {f: content for f, content in case["files"].items() if case.get("python") or not f.endswith(".py")}
    return {"name": name, **case, "files": files, "asked": invented.plain(model.asked), "samples": invented.samples(r["samples"]), "results": invented.results(r["results"])}


def main():
    only = sys.argv[1:]
    out = [record(n, c) for n, c in cases.CASES.items() if not only or n in only]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "harness.json")
    if only:
        path = "/dev/stdout"
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in out) + "\n]\n")


main()
