"""Runs the Python functions of evaluation tasks for Ingot: a call is a line of JSON, and so is its result."""
import importlib.util
import inspect
import json
import os
import random
import sys
import types

MEMORY = 4 << 30  # bytes of address space


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


def load(path):
    if path not in MODULES:
        find_harness(path)
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
        module = importlib.util.module_from_spec(spec)
        random.seed(0)  # as at the start of the harness
        spec.loader.exec_module(module)
        MODULES[path] = module
    return MODULES[path]


def plain(value):
    """Returns a value as JSON has it."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and value != value or value in (float("inf"), float("-inf")):
        return None
    return value


def call(request):
    function = load(request["file"])
    for name in request["function"].split("."):
        function = getattr(function, name)
    args = request["args"]
    if request["kind"] == "rows":
        args = [Dataset(args[0])]
    if request["kind"] == "results":  # the harness gives a log-probability with whether it is the likeliest as a tuple
        args[1] = [tuple(r) if isinstance(r, list) and len(r) == 2 and isinstance(r[1], bool) else r for r in args[1]]
    value = function(*args)
    if request["kind"] == "rows" or inspect.isgenerator(value):
        value = list(value)
    return plain(value)


def limit_memory():
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # not every system can


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what functions print is not an answer
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    limit_memory()
    replace_datasets()
    for line in requests:
        try:
            answer = {"value": call(json.loads(line))}
            text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        except BaseException as e:  # a function may also end the process
            text = json.dumps({"error": f"{type(e).__name__}: {e}"[:2000]})
        answers.write(text + "\n")
        answers.flush()


main()
