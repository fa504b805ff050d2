"""Runs the Python functions of evaluation tasks for Ingot: a call is a line of JSON, and so is its result."""
import base64
import contextlib
import importlib.util
import inspect
import itertools
import json
import math
import os
import pickle
import queue
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings

MEMORY = 4 << 30  # bytes of address space
PROGRAM_TIME = 3.0  # seconds for a program that answers a question


class Dataset(list):
    """A data set that has the methods which task files use, in place of the package datasets."""

    @property
    def features(self):
        return {name: None for name in (self[0] if len(self) else {})}

    column_names = property(lambda self: list(self.features))
    num_rows = property(len)

    def __getitem__(self, key):
        if isinstance(key, str):
            return [row[key] for row in self]
        found = list.__getitem__(self, key)
        return Dataset(found) if isinstance(key, slice) else found

    @classmethod
    def from_list(cls, rows):
        return cls(rows)

    @classmethod
    def from_dict(cls, columns):
        return cls(dict(zip(columns, values)) for values in zip(*columns.values()))

    def to_list(self):
        return list(self)

    def filter(self, keep, with_indices=False, **_):
        return Dataset(row for i, row in enumerate(self) if (keep(row, i) if with_indices else keep(row)))

    def map(self, change, with_indices=False, remove_columns=(), batched=False, **_):
        if batched:
            columns = {name: self[name] for name in self.column_names}
            return Dataset.from_dict({**{k: v for k, v in columns.items() if k not in remove_columns}, **change(columns)})
        out = []
        for i, row in enumerate(self):
            made = (change(dict(row), i) if with_indices else change(dict(row))) or {}
            out.append({**{k: v for k, v in row.items() if k not in remove_columns}, **made})
        return Dataset(out)

    def select(self, indices, **_):
        return Dataset(list.__getitem__(self, i) for i in indices)

    def shuffle(self, seed=None, **_):
        raise NotImplementedError("Dataset.shuffle draws from NumPy's generator, which Ingot does not repeat: give the rows in order")

    def rename_column(self, old, new):
        return self.rename_columns({old: new})

    def rename_columns(self, names):
        return Dataset({names.get(k, k): v for k, v in row.items()} for row in self)

    def remove_columns(self, names):
        names = [names] if isinstance(names, str) else names
        return Dataset({k: v for k, v in row.items() if k not in names} for row in self)

    def add_column(self, name, values, **_):
        return Dataset({**row, name: v} for row, v in zip(self, values))

    def sort(self, column, reverse=False, **_):
        return Dataset(sorted(self, key=lambda row: row[column], reverse=reverse))


def replace_datasets():
    module = types.ModuleType("datasets")
    module.Dataset, module.DatasetDict = Dataset, dict
    module.__spec__ = importlib.util.spec_from_loader("datasets", None)
    module.__version__ = "4.0.0"

    def load_dataset(*args, **kwargs):
        raise NotImplementedError("data sets are not downloaded: give the rows as a file")

    module.load_dataset = load_dataset
    sys.modules["datasets"] = module


# A program is right if it runs to its end. It gets the token at the beginning and writes it at the end, so that it cannot pass by ending early.
# It lacks the functions that reliability_guard of the metric code_eval takes away: a program that calls them is wrong in the harness.
# Its parent is a supervisor, not the runner, since a program can kill its parent. The supervisor ends the process group if the runner ends.
RUN_PROGRAM = """
import os, signal, sys, threading
token, text = sys.stdin.readline(), eval(sys.stdin.readline())
out = os.dup(1)
program = os.fork()
if program:
    def end_with_runner():
        sys.stdin.read()
        os.killpg(0, signal.SIGKILL)
    threading.Thread(target=end_with_runner, daemon=True).start()
    os.waitpid(program, 0)
    os.write(out, b"\\n")
    os._exit(0)
null = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(null, stream)
import builtins, shutil, subprocess
os.environ["OMP_NUM_THREADS"] = "1"
for module, names in (
    (builtins, "exit quit help"),
    (os, "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate replace unlink"),
    (os, "fchmod fchown chmod chown chroot lchflags lchmod lchown getcwd chdir"),
    (shutil, "rmtree move chown"), (subprocess, "Popen"),
):
    for name in names.split():
        setattr(module, name, None)
for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
    sys.modules[name] = None
try:
    exec(text, {})
except BaseException:
    os._exit(1)
os.write(out, token.encode())
"""


def program_passes(text, timeout):
    """Runs a program in a process group of its own and in an empty folder, with the limits of this process, and tells whether it ends without an error.

    No process that the program has started is left, except on macOS one that has left the process group."""
    token = base64.b32encode(os.urandom(20)) + b"\n"
    others, folder = children(), tempfile.mkdtemp()
    supervisor = subprocess.Popen([sys.executable, "-I", "-B", "-c", RUN_PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  cwd=folder, start_new_session=True)
    try:
        return first_line(supervisor, token + ascii(text).encode() + b"\n", time.monotonic() + timeout) == token
    finally:
        with contextlib.suppress(OSError):  # its processes have ended
            os.killpg(supervisor.pid, signal.SIGKILL)
        for pipe in (supervisor.stdin, supervisor.stdout):
            with contextlib.suppress(OSError):  # what was written was not read
                pipe.close()
        supervisor.wait()
        end_children(others)
        shutil.rmtree(folder, ignore_errors=True)


def first_line(process, given, end):
    """Gives a process its input, and returns the first line of its output; less if the process closes its output or the time is over."""
    line = b""
    with contextlib.suppress(OSError):  # it ended before it read its input
        process.stdin.write(given)
        process.stdin.flush()
        while b"\n" not in line and len(line) < 100 and select.select([process.stdout], [], [], max(0, end - time.monotonic()))[0]:
            part = os.read(process.stdout.fileno(), 100)
            if not part:
                break
            line += part
    return line[:line.find(b"\n") + 1]


def adopt_orphans():
    """Makes this process the parent of processes of its programs whose parents have ended, on Linux."""
    if sys.platform == "linux":
        try:
            import ctypes
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        except (ImportError, OSError, AttributeError):
            pass  # in a PID namespace of its own, the process is their parent anyway


def children():
    """Returns the ids of the children of this process, on Linux."""
    found = set()
    if sys.platform != "linux":
        return found
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        own = os.readlink("/proc/self")  # /proc may be that of another PID namespace
    except OSError:  # there are none
        return found
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/status", encoding="utf-8", errors="replace") as f:
            status = dict(line.split(":\t", 1) for line in f if ":\t" in line)
            if status["PPid"].strip() == own:
                found.add(int(status.get("NSpid", name).split()[-1]))
    return found


def end_children(others):
    """Ends the children of this process except others, and the children that these leave."""
    while left := children() - others:
        for end in (lambda pid: os.kill(pid, signal.SIGKILL), lambda pid: os.waitpid(pid, 0)):
            for pid in left:
                with contextlib.suppress(OSError):  # it has ended
                    end(pid)


class CodeEval:
    """The metric code_eval of the package evaluate: the share of programs that pass their tests (M. Chen et al., arXiv 2107.03374)."""

    def compute(self, references=(), predictions=(), k=(1, 10, 100), num_workers=None, timeout=PROGRAM_TIME):
        results, rights, counts = {}, [], []
        for i, (test, programs) in enumerate(zip(references, predictions)):
            passed = [program_passes(program + "\n" + test, timeout) for program in programs]
            results[i] = [(n, {"task_id": i, "passed": p, "result": "passed" if p else "failed", "completion_id": n}) for n, p in enumerate(passed)]
            rights.append(sum(passed))
            counts.append(len(passed))
        return {f"pass@{n}": sum(map(pass_at, counts, rights, itertools.repeat(n))) / len(counts) for n in k if all(c >= n for c in counts)}, results


def pass_at(n, right, k):
    """Returns an estimate of the probability that one of k programs is right, from n programs."""
    miss = 1.0
    for i in range(n - right + 1, n + 1):
        miss *= 1 - k / i
    return 1 - miss if n - right >= k else 1.0


class Rouge:
    """The metric rouge of the package evaluate, with the package rouge_score."""

    def compute(self, predictions, references, rouge_types=None, use_aggregator=True, use_stemmer=False, tokenizer=None):
        from rouge_score import rouge_scorer, scoring
        types = rouge_types or ["rouge1", "rouge2", "rougeL", "rougeLsum"]
        scorer = rouge_scorer.RougeScorer(rouge_types=types, use_stemmer=use_stemmer, tokenizer=tokenizer)
        aggregator, each = scoring.BootstrapAggregator(), []
        for target, answer in zip(references, predictions):
            score = scorer.score_multi if isinstance(target, list) else scorer.score
            each.append(score(target, answer))
            aggregator.add_scores(each[-1])
        if use_aggregator:
            return {name: score.mid.fmeasure for name, score in aggregator.aggregate().items()}
        return {name: [scores[name].fmeasure for scores in each] for name in types}


def replace_evaluate():
    module = types.ModuleType("evaluate")
    module.__spec__ = importlib.util.spec_from_loader("evaluate", None)

    def load(name, *args, **kwargs):
        if name in ("code_eval", "rouge"):
            return CodeEval() if name == "code_eval" else Rouge()
        raise NotImplementedError(f"the metric {name} of the package evaluate is a program on a hub, which Ingot does not download")

    module.load = load
    sys.modules["evaluate"] = module


def find_harness(path):
    """Lets functions import lm_eval.tasks from the folder of a task where the package lm_eval is not installed."""
    parts = path.split(os.sep)
    if "tasks" not in parts or "lm_eval" in sys.modules or importlib.util.find_spec("lm_eval"):
        return
    folder = os.sep.join(parts[:len(parts) - parts[::-1].index("tasks")])
    for name, paths in (("lm_eval", []), ("lm_eval.tasks", [folder])):
        module = types.ModuleType(name)
        module.__path__ = paths
        sys.modules[name] = module


MODULES = {}
RANDOM = {}  # states of the generator after the import of modules, for their first call


def load(path):
    if path not in MODULES:
        find_harness(path)
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
        module = importlib.util.module_from_spec(spec)
        random.seed(0)  # as at the start of the harness
        spec.loader.exec_module(module)
        MODULES[path], RANDOM[path] = module, random.getstate()
    return MODULES[path]


def plain(value):
    """Returns a value as JSON has it."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, map)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and value != value or value in (float("inf"), float("-inf")):
        return None
    return value


def score(value):
    """Returns a score as JSON has it: a number, or an object with the name of one that JSON lacks."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [score(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return plain(value)


def exact(value):
    """Returns a value as aggregate gets it back."""
    return {"pickle": base64.b64encode(pickle.dumps(value)).decode()}


def item(value):
    """Returns a value of a row: what exact made, or a pair that Ingot made, which is a tuple in the harness."""
    if isinstance(value, dict) and list(value) == ["pickle"]:
        return pickle.loads(base64.b64decode(value["pickle"]))
    return tuple(value) if isinstance(value, list) else value


def scores(by_metric):
    if not isinstance(by_metric, dict):
        return None
    return {"scores": {k: score(v) for k, v in by_metric.items()}, "items": {k: exact(v) for k, v in by_metric.items()}}


def metric_scores(function, name, gold, result, settings):
    """Returns what a metric gives for an answer, as the harness's method process_results of tasks that generate."""
    def score(references, predictions):
        try:
            return function(references=references, predictions=predictions, **settings)
        except TypeError:  # the function gets pairs
            return function([references[0], predictions[0]])

    if isinstance(gold, list) and gold:  # one right target is enough
        if name == "exact_match":
            return {name: 1.0 if score(gold, [result] * len(gold))[name] > 0 else 0.0}
        each = [score([g], [result]) for g in gold]
        return {name: 1.0 if any(v[name] if isinstance(v, dict) else v for v in each) else 0.0}
    if isinstance(result, str):
        gold = str(gold)
    value = score([gold], [result])
    return value if isinstance(value, dict) else {name: value}


def filtered(function, responses, row, settings):
    """Returns what a filter makes of the responses to a row."""
    if inspect.isclass(function):
        function = function(**settings).apply
    return list(function([responses], [row]))[0]


def call(request):
    function = load(request["file"])
    for name in request["function"].split("."):
        function = getattr(function, name)
    args, kind = request["args"], request["kind"]
    if kind == "find":
        return None
    if request["file"] in RANDOM:
        random.setstate(RANDOM.pop(request["file"]))
    if kind == "filter":
        return plain(filtered(function, *args))
    if kind == "metric":
        return scores(metric_scores(function, name, *args))
    if kind == "aggregate":
        return score(function([item(v) for v in args[0]]))
    if kind == "rows":
        args = [Dataset(args[0])]
    if kind == "results":  # the harness gives a log-probability with whether it is the likeliest as a tuple
        args[1] = [tuple(r) if isinstance(r, list) and len(r) == 2 and isinstance(r[1], bool) else r for r in args[1]]
        return scores(function(*args))
    value = function(*args)
    if kind == "rows" or inspect.isgenerator(value):
        value = list(value)
    return plain(value)


def answer_to(request):
    """Returns the result of a call as a line of JSON."""
    try:
        return json.dumps({"value": call(request)}, ensure_ascii=False, allow_nan=False)
    except BaseException as e:  # a function may also end the process
        return json.dumps({"error": f"{type(e).__name__}: {e}"[:2000]})


def answer_of_copy(request, limit):
    """Returns the result of a call in a copy of this process. It is empty if the copy ends or takes longer than limit seconds."""
    others, (here, there) = children(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the thread that takes requests, which copies do not need
        copy = os.fork()
    if copy == 0:
        try:
            os.setpgid(0, 0)
            with os.fdopen(there, "w", encoding="utf-8") as out:
                out.write(answer_to(request))
        finally:
            os._exit(0)
    os.close(there)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(copy, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, limit)
    with os.fdopen(here, encoding="utf-8") as result:
        text = result.read()
    signal.setitimer(signal.ITIMER_REAL, 0)
    with contextlib.suppress(OSError):  # its processes have ended
        os.killpg(copy, signal.SIGKILL)
    os.waitpid(copy, 0)
    end_children(others)
    return text or "{}"


def limit_memory():
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # not every system can


def take(requests, lines):
    """Ends this process at the end of the requests, also within a call."""
    for line in requests:
        lines.put(line)
    os._exit(0)


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what functions print is not an answer
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process of a PID namespace gets no signals from within
    limit_memory()
    adopt_orphans()
    replace_datasets()
    replace_evaluate()
    lines = queue.SimpleQueue()
    threading.Thread(target=take, args=(requests, lines), daemon=True).start()
    while True:
        line = lines.get()
        request = json.loads(line)
        limit = request.get("trial")
        answers.write((answer_of_copy(request, limit) if limit else answer_to(request)) + "\n")
        answers.flush()


main()
