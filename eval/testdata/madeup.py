"""Makes rows for a task of lm-evaluation-harness whose data set is not there: guesses the columns from the task's templates and from the
errors of its functions, and tries values until the harness accepts the rows."""
import copy
import functools
import itertools
import linecache
import re

import jinja2
import jinja2.meta
import jinja2.nodes

ENV = jinja2.Environment()
WORDS = ["river", "stone", "lamp", "garden", "bread", "winter", "engine", "letter", "mirror", "cloud", "bridge", "paper"]
TRIES = 120

# The values that are tried, by the name of the column: the first kinds are the likeliest.
KINDS = [
    (r"^messages$|conversation|dialog", ["messages", "text"]),
    (r"^solution", ["boxed", "text"]),
    (r"^sentence$", ["text", "blank"]),
    (r"choices|options|endings|candidates|distractors|aliases|answers|targets$|_list$|list$|hypotheses|instruction_id", ["list", "literal", "texts", "pairs", "lettered", "text"]),
    (r"labels$", ["ints", "letters", "list"]),
    (r"^label$|gold|_idx$|index|^idx$|^id$|correct", ["int", "count", "letter", "digit", "text", "bool", "one", "list"]),
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

    def startswith(self, prefix, *at):
        self == prefix if isinstance(prefix, str) else None
        return str.startswith(self, prefix, *at)

    __hash__ = str.__hash__


def text(name, i, k=0):
    w = WORDS[(i * 5 + k * 7 + len(name)) % len(WORDS)]
    return f"The {w} {name.replace('_', ' ')} no. {i + 1}{'abcdefgh'[k % 8]}"


MAKE = {
    "text": text, "list": lambda name, i: [text(name, i, k) for k in range(4)], "literal": lambda name, i: str([text(name, i, k) for k in range(4)]),
    "texts": lambda name, i: {"text": [text(name, i, k) for k in range(4)], "label": list("ABCD")}, "ints": lambda name, i: [1, 0, 0, 0],
    "letters": lambda name, i: list("ABCD"), "count": lambda name, i: 1 + i % 2, "int": lambda name, i: i % 2, "letter": lambda name, i: "AB"[i % 2],
    "pairs": lambda name, i: [{"text": text(name, i, k), "label": "ABCD"[k]} for k in range(4)], "digit": lambda name, i: str(1 + i % 2),
    "lettered": lambda name, i: {"ABCD"[k]: text(name, i, k) for k in range(4)}, "one": lambda name, i: [i % 2], "boxed": lambda name, i: f"It is $\\boxed{{{i + 4}}}$.",
    "blank": lambda name, i: f"The {WORDS[i % 12]} saw that _ was no. {i + 1}.",
    "messages": lambda name, i: [{"content": text(name, i, k), "role": ("user", "assistant")[k % 2]} for k in range(2)],
    "bool": lambda name, i: i % 2 == 0, "number": lambda name, i: str(12 * i + 4), "none": lambda name, i: None, "float": lambda name, i: i + 0.5, "dict": lambda name, i: {},
}


def value(kind, name, i):
    """Returns the value of a column in row i."""
    if isinstance(kind, dict):  # a column whose parts are named
        return {k: value(v, k, i) for k, v in kind.items()}
    if isinstance(kind, tuple):  # one of several constants
        return kind[i % len(kind)]
    return MAKE[kind](name, i)


@functools.cache
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


def part(column, name):
    """Returns the likeliest kind of a part of a column: choices often have lists of texts and labels."""
    if re.search(r"choices|options|targets", column.lower()):
        return "ints" if name == "labels" else "letters" if re.search(r"label|keys?$", name) else "list"
    return kinds(name)[0]


class Guess:
    """The columns of a task and the kinds of their values."""

    def __init__(self, config):
        self.columns, self.compared, self.parts, self.changed, self.changes = {}, {}, {}, {}, None
        self.languages = [p for p in re.split(r"[-_]", str(config.get("dataset_name"))) if re.fullmatch(r"[a-z]{2,3}", p)]
        names = ["doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix"]
        fields = [config.get(n) for n in names] + [(config.get("fewshot_config") or {}).get(n) for n in names]
        for f in fields:
            if isinstance(f, str) and re.fullmatch(r"\w[\w -]*", f):
                self.add(f)
            elif isinstance(f, str):
                for name, parts in paths(f).items():
                    self.add(name, parts)

    def add(self, name, parts=()):
        known = self.columns.get(name)
        new = known is None or parts and not (isinstance(known, dict) and set(parts) <= set(known))
        if new:
            parts = [*parts, *(known if parts and isinstance(known, dict) else ())]
            self.columns[name] = {p: part(name, p) for p in parts} if parts else kinds(name)[0]
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
        missing = re.search(r"'(\w+)' is undefined", message) or (isinstance(error, KeyError) and re.fullmatch(r"'([^']{1,40})'", message))
        if missing and not isinstance(error, KeyError) or missing and not self.made(missing[1]):
            if self.add(missing[1]):
                return
        named = re.search(r"has no (?:attribute|element) '(\w+)'|object has no attribute 'keys'", message)
        if named and "translation" in self.columns and self.add("translation", {*self.languages, *self.parts.get("translation", ()), *filter(None, named.groups())}):
            return
        for column, parts in self.parts.items():
            if self.add(column, parts):
                return
        for column, constants in self.compared.items():
            if column in self.columns and not isinstance(self.columns[column], tuple):
                self.columns[column] = tuple(sorted(constants))
                self.changed, self.changes = {}, None
                return
        if isinstance(error, KeyError) and self.look_up(error):
            return
        if self.changes is None:
            self.changes = self.others()
        self.changed = next(self.changes, {})

    def made(self, text):
        """Tells whether a text is the value of a column."""
        return any(text in (value(kind, column, i) for i in range(2)) for column, kind in self.columns.items())

    def look_up(self, error):
        """Takes the keys of a dictionary as constants if a column's text is not in it: one that the line of the error names."""
        trace = error.__traceback__
        while trace.tb_next:
            trace = trace.tb_next
        names = {**trace.tb_frame.f_globals, **trace.tb_frame.f_locals}
        known = [names[n] for n in re.findall(r"\w+", linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)) if isinstance(names.get(n), dict)]
        for column, kind in self.columns.items():
            if error.args and not isinstance(kind, tuple) and error.args[0] in (value(kind, column, i) for i in range(2)):
                for keys in known:
                    if keys and column not in keys:
                        self.columns[column] = tuple(list(keys)[:2])
                        self.changed, self.changes = {}, None
                        return True
        return False

    def like(self):
        """Returns a guess for a task that may need other constants."""
        guess = copy.copy(self)
        guess.columns = {name: kinds(name)[0] if isinstance(kind, tuple) else kind for name, kind in {**self.columns, **self.changed}.items()}
        guess.compared, guess.parts, guess.changed, guess.changes = {}, {}, {}, None
        return guess

    def others(self):
        """Yields other kinds of values for one column, then for two. Answers are changed first: their kind is the least certain."""
        names = sorted((n for n in self.columns if not isinstance(self.columns[n], (dict, tuple))), key=lambda n: (kinds(n) is KINDS[-1][1], n))
        ones = [{n: k} for n in names for k in dict.fromkeys(kinds(n) + kinds("")) if k != self.columns[n]]
        yield from sorted(ones, key=lambda one: next((kinds(n) is KINDS[-1][1]) * 4 + (kinds(n) + kinds("")).index(k) for n, k in one.items()))
        for a, b in itertools.combinations(ones, 2):
            if a.keys() != b.keys():
                yield {**a, **b}
