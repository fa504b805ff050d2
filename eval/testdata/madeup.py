"""Makes rows for a task of lm-evaluation-harness whose data set is not there: guesses the columns from the task's templates and from the
errors of its functions, and tries values until the harness accepts the rows."""
import itertools
import re

import jinja2
import jinja2.meta
import jinja2.nodes

ENV = jinja2.Environment()
WORDS = ["river", "stone", "lamp", "garden", "bread", "winter", "engine", "letter", "mirror", "cloud", "bridge", "paper"]
TRIES = 120

# The values that are tried, by the name of the column: the first kinds are the likeliest.
KINDS = [
    (r"choices|options|endings|candidates|distractors|aliases|answers|targets$|_list$|list$|hypotheses|instruction_id", ["list", "literal", "texts", "pairs", "text"]),
    (r"labels$", ["ints", "letters", "list"]),
    (r"^label$|gold|_idx$|index|^idx$|^id$|correct", ["int", "count", "letter", "digit", "text", "bool", "list"]),
    (r"^answer|answerkey|key$|^target|solution", ["letter", "int", "count", "text", "list", "bool", "digit", "number"]),
    (r"", ["text", "list", "int", "literal", "texts", "bool", "digit", "letter", "none", "pairs", "float", "dict"]),
]


class Probe(str):
    """A text that records what it is compared with and which parts are read: a task that keeps some rows of a data set names their subject so."""

    column, compared, parts = "", None, None

    def __getitem__(self, key):
        if isinstance(key, str) and self.parts is not None:
            self.parts.setdefault(self.column, set()).add(key)
        return str.__getitem__(self, key)

    def __eq__(self, other):
        if isinstance(other, str) and not isinstance(other, Probe) and self.compared is not None:
            self.compared.setdefault(self.column, set()).add(str(other))
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def text(name, i, k=0):
    w = WORDS[(i * 5 + k * 7 + len(name)) % len(WORDS)]
    return f"The {w} {name.replace('_', ' ')} no. {i + 1}{'abcdefgh'[k % 8]}"


def value(kind, name, i):
    """Returns the value of a column in row i."""
    if isinstance(kind, dict):  # a column whose parts are named
        return {k: value(v, k, i) for k, v in kind.items()}
    if isinstance(kind, tuple):  # one of several constants
        return kind[i % len(kind)]
    return {
        "text": lambda: text(name, i), "list": lambda: [text(name, i, k) for k in range(4)], "literal": lambda: str([text(name, i, k) for k in range(4)]),
        "texts": lambda: {"text": [text(name, i, k) for k in range(4)], "label": list("ABCD")}, "ints": lambda: [1, 0, 0, 0], "letters": lambda: list("ABCD"),
        "count": lambda: 1 + i % 2, "pairs": lambda: [{"text": text(name, i, k), "label": "ABCD"[k]} for k in range(4)], "int": lambda: i % 2, "letter": lambda: "AB"[i % 2],
        "digit": lambda: str(1 + i % 2), "bool": lambda: i % 2 == 0, "number": lambda: str(12 * i + 4), "none": lambda: None, "float": lambda: i + 0.5, "dict": lambda: {},
    }[kind]()


def kinds(name):
    return next(list_ for pattern, list_ in KINDS if re.search(pattern, name.lower()))


def paths(template):
    """Returns the columns of a template, each with the names of its parts."""
    found = {}
    try:
        tree = ENV.parse(template)
    except jinja2.TemplateSyntaxError:
        return found
    free = jinja2.meta.find_undeclared_variables(tree)
    for name in free:
        found.setdefault(name, set())
    called = {id(c.node) for c in tree.find_all(jinja2.nodes.Call)}
    for node in itertools.chain(tree.find_all(jinja2.nodes.Getattr), tree.find_all(jinja2.nodes.Getitem)):
        part = node.attr if isinstance(node, jinja2.nodes.Getattr) else getattr(node.arg, "value", None)
        if id(node) not in called and isinstance(part, str) and isinstance(node.node, jinja2.nodes.Name) and node.node.name in free:
            found[node.node.name].add(part)
    return found


class Guess:
    """The columns of a task and the kinds of their values."""

    def __init__(self, config):
        self.columns, self.compared, self.parts, self.changed, self.changes = {}, {}, {}, {}, None
        names = ["doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix"]
        fields = [config.get(n) for n in names] + [(config.get("fewshot_config") or {}).get(n) for n in names]
        for f in fields:
            if isinstance(f, str) and re.fullmatch(r"\w+", f):
                self.add(f)
            elif isinstance(f, str):
                for name, parts in paths(f).items():
                    self.add(name, parts)

    def add(self, name, parts=()):
        new = name not in self.columns or parts and not isinstance(self.columns[name], dict)
        if new:
            self.columns[name] = {p: kinds(p)[0] for p in parts} if parts else kinds(name)[0]
            self.changed, self.changes = {}, None
        return new

    def rows(self, n, probe=False):
        made = [{name: value(kind, name, i) for name, kind in {**self.columns, **self.changed}.items()} for i in range(n)]
        if probe:
            for row in made:
                for name, v in row.items():
                    if isinstance(v, str):
                        row[name] = Probe(v)
                        row[name].column, row[name].compared, row[name].parts = name, self.compared, self.parts
        return made

    def learn(self, error):
        """Changes the guess after an error."""
        message = str(error)
        missing = re.search(r"'(\w+)' is undefined", message) or (isinstance(error, KeyError) and re.fullmatch(r"'(\w[\w -]*)'", message))
        if missing and self.add(missing[1]):
            return
        for column, parts in self.parts.items():
            if self.add(column, parts):
                return
        for column, constants in self.compared.items():
            if column in self.columns and not isinstance(self.columns[column], tuple):
                self.columns[column] = tuple(sorted(constants))
                self.changed, self.changes = {}, None
                return
        if self.changes is None:
            self.changes = self.others()
        self.changed = next(self.changes, {})

    def others(self):
        """Yields other kinds of values for one column, then for two. Answers are changed first: their kind is the least certain."""
        names = sorted((n for n in self.columns if not isinstance(self.columns[n], (dict, tuple))), key=lambda n: (kinds(n) is KINDS[-1][1], n))
        ones = [{n: k} for n in names for k in dict.fromkeys(kinds(n) + kinds("")) if k != self.columns[n]]
        yield from sorted(ones, key=lambda one: next((kinds(n) is KINDS[-1][1]) * 4 + (kinds(n) + kinds("")).index(k) for n, k in one.items()))
        for a, b in itertools.combinations(ones, 2):
            if a.keys() != b.keys():
                yield {**a, **b}
