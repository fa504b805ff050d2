"""Writes harness.json (and saved.json, files that the harness saves): prompts, targets, scores and results that lm-evaluation-harness computes for the tasks in cases.py.

python3 -m venv venv && venv/bin/pip install lm-eval==0.4.13 && venv/bin/python record.py

A model that invents answers takes the place of a real one: answers are those of the case, log-probabilities depend on a hash of the
text. The harness does all the rest. Rows are made by hand, so no data set is downloaded."""
import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("DISABLE_MULTIPROC", "1")
CACHE = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = CACHE.name

from lm_eval.loggers import EvaluationTracker  # noqa: E402
from lm_eval.evaluator import simple_evaluate  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

import cases  # noqa: E402
import invented  # noqa: E402


# The cases whose files, as the harness saves them, are recorded in saved.json.
SAVED = ("pairs", "rolling", "last_word", "sums", "repeated", "accepted", "groups_of_regex", "several_right", "g_all")


def record(name, case, saved):
    with tempfile.TemporaryDirectory() as folder:
        old = os.getcwd()
        os.chdir(folder)
        for file, content in case["files"].items():
            os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
            with open(file, "w") as f:
                f.write(content)
        model = invented.Invented(case.get("answers", [""]))
        manager = TaskManager(include_path=folder, include_defaults=False)
        tracker = EvaluationTracker(output_path=os.path.join(folder, "out"))
        try:
            r = simple_evaluate(model=model, tasks=[case.get("run", name)], task_manager=manager, num_fewshot=case.get("num_fewshot"),
                                apply_chat_template=case.get("chat", False), fewshot_as_multiturn=case.get("multiturn", False),
                                system_instruction=case.get("system"), bootstrap_iters=case.get("bootstrap", 100_000), evaluation_tracker=tracker)
        finally:
            os.chdir(old)
        result = {"samples": invented.samples(r["samples"]), "results": invented.results(r["results"])}
        if name in SAVED:
            saved[name] = save(tracker, r)
    # The harness's own functions stay in its package: those in Go are chosen by their names.
    files = {f: content for f, content in case["files"].items() if case.get("python") or not f.endswith(".py")}
    return {"name": name, **case, "files": files, "asked": invented.plain(model.asked), **result}


def save(tracker, r):
    """Saves a run as the harness does, and returns what is in its files by their names, which it shortens."""
    samples = r.pop("samples")
    tracker.save_results_aggregated(results=r, samples=samples)
    for task, list_ in samples.items():
        tracker.save_results_samples(task, list_)
    out = {}
    for path in sorted(pathlib.Path(tracker.output_path).rglob("*.json*")):
        text = path.read_text()
        name = path.name.replace("_" + tracker.date_id, "")
        out[name] = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    for key in ("pretty_env_info", "git_hash", "upper_git_hash", "date", "start_time", "end_time", "total_evaluation_time_seconds", "configs"):
        out["results.json"].pop(key, None)  # of the machine that recorded, or the task file's text
    return out


def main():
    only = sys.argv[1:]
    saved = {}
    out = [record(n, c, saved) for n, c in cases.CASES.items() if not only or n in only]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "harness.json")
    with open(path.replace("harness.json", "saved.json"), "w") as f:
        f.write("{\n" + ",\n".join(json.dumps(n) + ": " + json.dumps(v, ensure_ascii=False) for n, v in saved.items()) + "\n}\n")
    if only:
        path = os.devnull
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in out) + "\n]\n")


main()
