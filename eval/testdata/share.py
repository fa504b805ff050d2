"""Writes what lm-evaluation-harness computes for each of its task files and two made-up rows, as lines of JSON.

share.py OUTPUT [FOLDER ...]: only the task files in these folders of lm_eval/tasks. It needs lm-eval 0.4.13. Two processes share the work.
What an earlier run has written to OUTPUT is kept, unless these programs have changed since."""
import copy
import faulthandler
import glob
import hashlib
import importlib.metadata
import io
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import sys
import tempfile
import time
import traceback

os.environ.update({"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DISABLE_MULTIPROC": "1", "TQDM_DISABLE": "1"})
CACHE = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = CACHE.name

import datasets  # noqa: E402
import evaluate as metrics  # noqa: E402
import lm_eval  # noqa: E402
import numpy  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.evaluator import evaluate  # noqa: E402
from lm_eval.tasks._yaml_loader import load_yaml  # noqa: E402

import hub  # noqa: E402
import invented  # noqa: E402
import madeup  # noqa: E402
import named  # noqa: E402



metrics.load = hub.load
TASKS = os.path.join(os.path.dirname(lm_eval.__file__), "tasks")
ROWS, EXAMPLES = 2, 12  # made-up ones
NAMED = 20  # rows by hand
WORKERS = 2  # processes
PART = 50  # files that a process records before it takes files of another folder
TIME = 60  # seconds for a file
SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")


class Rows(list):
    """A data set for the search of rows, which is faster than one of the package datasets."""

    @property
    def features(self):
        return {k: None for k in (self[0] if len(self) else {})}

    column_names = property(lambda self: list(self.features))

    def __getitem__(self, key):
        return [r[key] for r in self] if isinstance(key, str) else list.__getitem__(self, key)

    def filter(self, keep, with_indices=False, **kwargs):
        return Rows(r for i, r in enumerate(self) if (keep(r, i) if with_indices else keep(r)))

    def map(self, change, with_indices=False, **kwargs):
        return Rows({**r, **(change(dict(r), i) if with_indices else change(dict(r)))} for i, r in enumerate(self))

    def select(self, indices, **kwargs):
        return Rows(list.__getitem__(self, i) for i in indices)


class Task(ConfigurableTask):
    """A task whose data set is made up."""

    made = None

    def download(self, *args, **kwargs):
        self.dataset = self.made


def task_files(folders):
    for folder in folders or [""]:
        for path in sorted(glob.glob(os.path.join(TASKS, folder, "**", "*.yaml"), recursive=True)):
            try:
                config = load_yaml(path, resolve_func=False)
            except Exception:
                continue
            if isinstance(config.get("task"), str) and "group" not in config:
                yield path


def splits(config):
    names = {config.get(s) for s in SPLITS} | {(config.get("fewshot_config") or {}).get("split")}
    evaluated = config.get("test_split") or config.get("validation_split")
    return evaluated, {n for n in names if n}


def once(change):
    """Returns process_docs with its results kept by data set, as the package datasets keeps them for the data sets of a hub."""
    kept = {}

    def changed(data, **kwargs):
        if id(data) not in kept:
            kept[id(data)] = change(data, **kwargs)
        return kept[id(data)]

    return changed


def build(config, rows, make):
    """Returns the task on its rows. The last rows are those of the other splits."""
    evaluated, names = splits(config)
    Task.made = {n: make(rows[:-EXAMPLES] if n == evaluated else rows[-EXAMPLES:]) for n in names}
    config = {k: v for k, v in copy.deepcopy(config).items() if k not in ("tag", "group", "task_list")}
    if callable(config.get("process_docs")):
        config["process_docs"] = once(config["process_docs"])
    random.seed(0)
    numpy.random.seed(1234)
    return Task(config=config)


def run(task, answers):
    model = invented.Invented(answers)
    task.set_fewshot_seed(1234)
    r = evaluate(model, {"tasks": {task.config.task: task}, "groups": {}, "group_map": {}}, bootstrap_iters=0, confirm_run_unsafe_code=True)
    return model, r


def answers(task):
    """Returns answers that are right, wrong, or in the form that tasks often ask for."""
    targets = []
    for doc in task.eval_docs:
        target = task.doc_to_target(doc)
        if isinstance(target, list) and target:
            target = target[0]
        if isinstance(target, int) and task.config.doc_to_choice is not None:
            target = task.doc_to_choice(doc)[target]
        targets.append(str(target))
    return targets + [f"So the answer is ({t}).\n" for t in targets] + [f"{t}\n\nMore." for t in targets] + ["the answer is (A)", "B", "It is 4.\n#### 4", "no idea", ""]


def check_targets(task):
    """Raises an error if a target is none of the choices: the harness only warns."""
    for doc in task.eval_docs:
        target = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
        choices = task.doc_to_choice(doc)
        for t in target if isinstance(target, list) else [target]:
            if not (t in choices if isinstance(t, str) else 0 <= t < len(choices)):
                raise LookupError("the target is no choice")


def attempt(config, rows, make):
    task = build(config, rows, make)
    if len(task.eval_docs) != len(rows) - EXAMPLES:
        raise LookupError("rows were removed")
    if make is Rows and task.OUTPUT_TYPE == "multiple_choice" and task.config.process_results is None:
        check_targets(task)
    shots = task.config.num_fewshot or 0
    evaluated, _ = splits(config)
    if shots and (task.config.fewshot_split or evaluated) == evaluated and not task.fewshot_cfg.samples:
        task.set_config("num_fewshot", min(shots, 1))
    return task, *run(task, answers(task))


def search(config, known):
    """Finds columns with which the task runs. known has those of similar tasks."""
    guess = copy.copy(known) or madeup.Guess(config)
    guess.changes = None
    seen = None
    for _ in range(madeup.TRIES):
        try:
            attempt(config, guess.rows(ROWS + EXAMPLES, True), Rows)
            return guess, None
        except Exception as e:
            seen = e
            guess.learn(e)
    return None, seen


def like(config):
    """Returns what tasks have in common that need the same rows, and what tasks of other subjects have in common with them."""
    return tuple(repr([(k, str(config.get(k))) for k in keys]) for keys in (FIELDS + ("process_docs",), FIELDS))


FIELDS = ("doc_to_text", "doc_to_target", "doc_to_choice", "process_results", "description")


def record(path, known):
    try:
        config = load_yaml(path)
    except BaseException as e:
        return {"reason": f"the harness does not load it: {type(e).__name__}: {e}"[:200]}
    if "class" in config:
        return {"reason": "the task is a Python class"}
    rows = named.rows(os.path.relpath(path, TASKS), NAMED + EXAMPLES)
    if rows is None:
        same, similar = like(load_yaml(path, resolve_func=False))
        guess = known.get(same) or (known[similar].like() if similar in known else None)
        if not isinstance(guess, str):
            guess, error = search(config, guess) if guess else (None, None)
            if guess is None:
                guess, error = search(config, None)
            known[same] = guess or f"no rows found: {type(error).__name__}: {error}"[:200]
        if isinstance(known[same], str):
            return {"reason": known[same]}
        known[similar] = guess
        rows = guess.rows(ROWS + EXAMPLES)
    try:
        task, model, r = attempt(config, rows, datasets.Dataset.from_list)
    except Exception as e:
        return {"reason": f"the harness fails: {type(e).__name__}: {e}"[:200]}
    return {"name": task.config.task, "num_fewshot": task.config.num_fewshot or 0, "rows": rows[:-EXAMPLES], "examples": rows[-EXAMPLES:], "asked": invented.plain(model.asked),
            "samples": invented.samples(r["samples"]), "results": {t: {k: v for k, v in scores.items() if "_stderr" not in k} for t, scores in invented.results(r["results"]).items()}}


class Slow(BaseException):
    """A file takes too long. A function that catches an Exception does not catch it."""


def stop(*_):
    raise Slow


def record_line(path, known):
    signal.alarm(TIME)
    faulthandler.dump_traceback_later(2 * TIME, exit=True, file=open(os.devnull, "w"))  # where the alarm is not noticed
    try:
        made = record(path, known)
    except Slow:
        made = {"reason": "the harness takes too long"}
    except BaseException as e:  # a function may want to end the process
        made = {"reason": f"the harness fails: {type(e).__name__}: {traceback.format_exc(limit=-1)}"[-200:]}
    signal.alarm(0)
    faulthandler.cancel_dump_traceback_later()
    return json.dumps({"file": os.path.relpath(path, TASKS), **made}, ensure_ascii=False, default=str) + "\n"


def work(connection):
    signal.signal(signal.SIGALRM, stop)
    multiprocessing.current_process()._config["daemon"] = False  # code_eval runs programs in processes
    sys.stdout = sys.stderr = io.StringIO()
    known = {}
    while True:
        connection.send(record_line(connection.recv(), known))


class Worker:
    """A process that records files, which a function may end."""

    def __init__(self):
        self.files = []  # the next one is the last
        self.start()

    def start(self):
        self.connection, other = multiprocessing.Pipe()
        multiprocessing.Process(target=work, args=(other,), daemon=True).start()
        other.close()

    def begin(self, parts):
        """Begins with a file. Returns whether there is one."""
        if not self.files and parts:
            self.files = parts.pop()[::-1]
        if not self.files:
            return False
        self.path = self.files.pop()
        self.connection.send(self.path)
        return True

    def result(self):
        try:
            return self.connection.recv()
        except EOFError:
            self.start()
            return json.dumps({"file": os.path.relpath(self.path, TASKS), "reason": "the harness takes too long, or ends"}) + "\n"


def record_all(paths):
    """Yields a line for each file. A process gets files of one folder one after another, since they often need the same rows."""
    folders = {}
    for path in paths:
        folders.setdefault(os.path.relpath(path, TASKS).split(os.sep)[0], []).append(path)
    parts = [files[i:i + PART] for files in folders.values() for i in range(0, len(files), PART)][::-1]
    workers = [Worker() for _ in range(WORKERS)]
    busy = {w.connection: w for w in workers if w.begin(parts)}
    while busy:
        for connection in multiprocessing.connection.wait(list(busy)):
            worker = busy.pop(connection)
            yield worker.result()
            if worker.begin(parts):
                busy[worker.connection] = worker


def kept(output, head):
    """Returns the lines that an earlier run has written, by file."""
    if not os.path.exists(output):
        return {}
    with open(output) as f:
        if f.readline() != head:
            return {}
        return {json.loads(line)["file"]: line for line in f if line.endswith("\n")}  # the last line may not be whole


def main():
    logging.disable(logging.CRITICAL)
    datasets.disable_progress_bars()
    datasets.disable_caching()
    output = sys.argv[1]
    programs = b"".join(open(m.__file__, "rb").read() for m in (sys.modules["__main__"], hub, invented, madeup, named))
    paths = list(task_files(sys.argv[2:]))
    head = json.dumps({"folder": TASKS, "version": importlib.metadata.version("lm-eval"), "files": len(paths), "part": len(sys.argv) > 2,
                       "programs": hashlib.sha256(programs).hexdigest()}) + "\n"
    lines = kept(output, head)
    missing = [path for path in paths if os.path.relpath(path, TASKS) not in lines]
    start = time.time()
    with open(output, "w") as out:
        out.writelines([head, *lines.values()])
        for n, line in enumerate(record_all(missing), 1):
            out.write(line)
            out.flush()
            if n % 500 == 0 or n == len(missing):
                print(f"{n} of {len(missing)} task files in {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
