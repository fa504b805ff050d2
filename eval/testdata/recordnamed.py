"""Writes named.jsonl.gz: prompts, targets, filtered answers and scores that lm-evaluation-harness computes for 20 rows by hand of each task
that Ingot promises to run, with the task's own number of examples and with two. Of tasks that differ in the subject only, it has one or two:
`make harness` compares all.

recordnamed.py: it needs lm-eval 0.4.13, and the packages that `make harness` installs."""
import contextlib
import fnmatch
import gzip
import io
import json
import logging
import os
import sys

import share  # first: it sets the environment of the package datasets

import datasets
from lm_eval.tasks._yaml_loader import load_yaml

import invented
import named

FILES = [
    "arc/arc_*.yaml", "hellaswag/hellaswag.yaml", "mmlu/default/mmlu_anatomy.yaml", "mmlu/default/mmlu_high_school_physics.yaml", "truthfulqa/*.yaml", "winogrande/default.yaml",
    "gsm8k/*.yaml", "ifeval/ifeval.yaml", "bbh/cot_fewshot/*.yaml", "gpqa/*zeroshot/*main*.yaml", "gpqa/cot_n_shot/*main*.yaml", "gpqa/generative/*main*.yaml", "mmlu_pro/mmlu_pro_computer_science.yaml", "mmlu_pro/mmlu_pro_law.yaml",
    "piqa/piqa.yaml", "super_glue/boolq/*.yaml", "openbookqa/openbookqa.yaml", "sciq/sciq.yaml", "lambada/*.yaml", "triviaqa/default.yaml", "nq_open/nq_open.yaml", "drop/default.yaml",
    "wikitext/wikitext.yaml", "blimp/anaphor_gender_agreement.yaml", "blimp/wh_island.yaml", "leaderboard/*/*.yaml",
]


def sources(file):
    """Returns the texts of a task file and of the files that it includes, by name. MATH's examples are in its module."""
    folder, found, names = os.path.join(share.TASKS, os.path.dirname(file)), {}, [os.path.basename(file)]
    while names:
        name = names.pop()
        with open(os.path.join(folder, name)) as f:
            found[name] = f.read()
        names += [line.split(":", 1)[1].strip().strip("\"'") for line in found[name].splitlines() if line.replace('"', "").startswith("include:")]
    if "list_fewshot_samples" in "".join(found.values()):
        with open(os.path.join(folder, "utils.py")) as f:
            found["utils.py"] = f.read()
    return found


def answers(file, task):
    own = next((a for pattern, a in named.ANSWERS if fnmatch.fnmatchcase(file, pattern)), [])
    return own + share.answers(task)


def runs(file):
    """Yields the runs of a task file."""
    rows = named.rows(file, share.NAMED + share.EXAMPLES)
    config = load_yaml(os.path.join(share.TASKS, file))
    own = config.get("num_fewshot") or 0
    for shots in sorted({own, 2}):
        task = share.build(config | {"num_fewshot": shots}, rows, datasets.Dataset.from_list)
        try:
            model, r = share.run(task, answers(file, task))
        except AssertionError:
            if shots == own:
                raise
            continue  # the harness makes no examples of IFEval, whose targets are no texts
        yield {
            "file": os.path.basename(file), "files": sources(file), "name": task.config.task, "num_fewshot": shots, "undecided": file.startswith("leaderboard/math/"),
            "rows": rows[:-share.EXAMPLES], "examples": rows[-share.EXAMPLES:], "asked": invented.plain(model.asked), "samples": invented.samples(r["samples"]),
            "results": {t: {k: v for k, v in scores.items() if "_stderr" not in k} for t, scores in invented.results(r["results"]).items()},
        }


def main():
    logging.disable(logging.CRITICAL)
    datasets.disable_progress_bars()
    datasets.disable_caching()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "named.jsonl.gz")
    with open(path, "wb") as out, gzip.GzipFile("", "wb", mtime=0, fileobj=out) as lines:
        for full, _ in share.task_files([]):
            file = os.path.relpath(full, share.TASKS)
            if not any(fnmatch.fnmatchcase(file, pattern) for pattern in FILES):
                continue
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                made = list(runs(file))
            for run in made:
                lines.write((json.dumps(run, ensure_ascii=False) + "\n").encode())
            print(file, *(f"{len(run['asked'])} requests" for run in made), file=sys.stderr)


main()
