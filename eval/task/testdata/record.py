"""Writes harness.json: the results of functions of EleutherAI's lm-evaluation-harness for our own rows. Its argument is a checkout of the harness
(recorded with commit 4e7e0d47, 2026-08-21). The harness's packages for language detection and sentence splitting are not needed: the
instructions that use them are not recorded."""
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
TASKS = os.path.join(sys.argv[1], "lm_eval", "tasks")


class Words:
    def __init__(self, pattern):
        self.pattern = pattern

    def tokenize(self, text):
        return re.findall(self.pattern, text)


def fake(name, **attributes):
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    module.__spec__ = importlib.util.spec_from_loader(name, None)
    sys.modules[name] = module
    return module


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, os.path.join(TASKS, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Rows(list):
    def map(self, f):
        return [f(dict(r)) for r in self]


WINOGRANDE = [
    {"sentence": "The cup did not fit into the box because the _ was too large.", "option1": "cup", "option2": "box", "answer": "1"},
    {"sentence": "Ann called Bea, but _ did not answer the phone.", "option1": "Ann", "option2": "Bea", "answer": "2"},
    {"sentence": "_ is heavier than wood: iron or cork?", "option1": "Iron", "option2": "Cork", "answer": "1"},
    {"sentence": "He put the key in the lock, then turned the _.", "option1": "lock", "option2": "key", "answer": "2"},
]
WIKITEXT = [
    {"page": " = The river = \n \n The river is 1 @,@ 204 km long , and 3 @.@ 5 m deep ; its well @-@ known bridge ( built in 1911 ) is \" the oldest \" . \n = = Towns = = \n It ' s the town 's pride . Is it ? N of them say so ! \n"},
    {"page": "Plain text, with { braces } and [ brackets ] , 20 \u00b0 C and the boys ' toys : \n\n none . "},
]
HELLASWAG = [
    {"activity_label": "Baking bread", "ctx_a": "[header] How to bake [title] Mix flour.", "ctx_b": "the baker KNEADS",
     "endings": ["the  dough [step] well.", "a car."], "label": "1", "ctx": "", "ind": 1},
    {"activity_label": "Swimming", "ctx_a": "A man stands at a pool.", "ctx_b": "", "endings": [" he jumps", "He sings."], "label": "0", "ctx": "", "ind": 2},
    {"activity_label": "Cooking", "ctx_a": "Eggs are boiled.", "ctx_b": "\u00e9lan [substeps] x", "endings": ["a", "b"], "label": "0", "ctx": "", "ind": 3},
]

ANSWERS = [
    "", "   \n", "My answer is yes.", "I cannot say. My answer is no. Sorry.",
    "Sure, here it is:\n\n* one\n* two\n- three\n\nP.S. Good luck, friend!",
    "**Title** and *mark* and *another one* then ** ** end",
    "<<A title>>\n\nSection 1\ntext here\nSection 2\nmore text\nSECTION 3 last",
    "First response here.\n******\nSecond response there.", "same\n******\nsame", "******\na\n******\nb", "a\n******\n\n******\nb",
    "one paragraph\n***\nanother one\n***\nthe third", "***\nonly\n***", "x\n***\n \n***\ny",
    "```json\n{\"name\": \"x\", \"list\": [1, 2]}\n```", "{\"a\": 1}", "Here it is: {\"a\": 1}", "```\n[]\n```",
    "\"Quoted from start to end.\"", "\"", "\"open only",
    "ALL OF THIS IS LOUD, NASA SAID.", "all of this is quiet and low.", "Mixed Case Text",
    "dear [name],\nplease come to [place] on [date].\nYours, [me]", "[a][b]",
    "The river runs. The river bends. A RIVER ends, and rivers rise.",
    "Hello there\n\nsecond block begins\n\n'third' begins here\n\nFourth!",
    "Hello there\n\n\n\nsecond block begins\n\n\"Third. begins here",
    "Repeat this request.\nThen my answer follows. Any other questions?", "repeat THIS request. no", "Thanks. Is there anything else I can help with?\"",
    "P.P.S. one more thing", "well p. s. no", "P. P. S remember", "note: the end\nps: none",
    "word " * 120, "caf\u00e9 na\u00efve \u00fcber \u4f60\u597d \u4e16\u754c", "a, b, c", "no commas at all here",
    "line one\nMy answer is maybe.\nline three *with* stars", "Intro\n\"quoted body\"", "Title line\n{\"a\": [true]}\nlast line",
]
CHECKS = [
    ("keywords:existence", {"keywords": ["river", "end"]}), ("keywords:existence", {"keywords": ["one"]}),
    ("keywords:frequency", {"keyword": "river", "frequency": 3, "relation": "at least"}), ("keywords:frequency", {"keyword": " one ", "frequency": 2, "relation": "less than"}),
    ("keywords:forbidden_words", {"forbidden_words": ["river", "text"]}), ("keywords:forbidden_words", {"forbidden_words": ["rive"]}),
    ("keywords:letter_frequency", {"letter": "e", "let_frequency": 5, "let_relation": "at least"}), ("keywords:letter_frequency", {"letter": "Z", "let_frequency": 1, "let_relation": "less than"}),
    ("length_constraints:number_words", {"num_words": 10, "relation": "at least"}), ("length_constraints:number_words", {"num_words": 5, "relation": "less than"}),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 3}), ("length_constraints:number_paragraphs", {"num_paragraphs": 1}),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 4, "nth_paragraph": 3, "first_word": "Third"}),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 3, "nth_paragraph": 1, "first_word": "hello"}),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}), ("detectable_content:number_placeholders", {"num_placeholders": 4}),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}), ("detectable_content:postscript", {"postscript_marker": "P.P.S"}), ("detectable_content:postscript", {"postscript_marker": "note:"}),
    ("detectable_format:number_bullet_lists", {"num_bullets": 3}), ("detectable_format:number_bullet_lists", {"num_bullets": 1}),
    ("detectable_format:constrained_response", {}),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}), ("detectable_format:number_highlighted_sections", {"num_highlights": 3}),
    ("detectable_format:multiple_sections", {"section_spliter": "Section", "num_sections": 2}), ("detectable_format:multiple_sections", {"section_spliter": "SECTION", "num_sections": 1}),
    ("detectable_format:json_format", {}), ("detectable_format:title", {}), ("combination:two_responses", {}),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Repeat this request."}),
    ("startend:end_checker", {"end_phrase": "Any other questions?"}), ("startend:end_checker", {"end_phrase": "Is there anything else I can help with?"}),
    ("startend:quotation", {}), ("punctuation:no_comma", {}),
]


def digits(flags):
    return "".join(str(int(f)) for f in flags)


def main():
    out = {}
    w = load("preprocess_winogrande", "winogrande/preprocess_winogrande.py")
    out["winogrande"] = []
    for shots in (0, 2):
        # api/task.py, fewshot_context: an example is the right choice, the delimiter, the target; construct_requests: choices are contexts.
        shot = "".join(w.doc_to_choice(d)[w.doc_to_text(d)] + " " + w.doc_to_target(d) + "\n\n" for d in WINOGRANDE[:shots])
        for d in WINOGRANDE[2:]:
            out["winogrande"].append({"row": d, "shots": WINOGRANDE[:shots], "contexts": [shot + c for c in w.doc_to_choice(d)],
                                      "continuation": " " + w.doc_to_target(d), "right": w.doc_to_text(d)})
    p = load("preprocess_wikitext", "wikitext/preprocess_wikitext.py")
    out["wikitext"] = [{"row": d, "text": p.wikitext_detokenizer(d), "words": p.process_results(d, (0,))["word_perplexity"][1],
                        "bytes": p.process_results(d, (0,))["byte_perplexity"][1]} for d in WIKITEXT]
    fake("datasets", Dataset=Rows)
    h = load("hellaswag_utils", "hellaswag/utils.py")
    out["hellaswag"] = [{"row": r, "query": d["query"], "choices": d["choices"]} for r, d in zip(HELLASWAG, h.process_docs(Rows(HELLASWAG)))]

    fake("langdetect")
    fake("immutabledict", immutabledict=dict)
    fake("packaging"), fake("packaging.version", parse=lambda v: tuple(map(int, v.split("."))))
    importlib.metadata.version = lambda name: "3.9.1"
    fake("nltk", download=lambda *a, **k: None, __version__="3.9.1", data=types.SimpleNamespace(find=lambda *a: None, load=None),
         tokenize=types.SimpleNamespace(RegexpTokenizer=Words))
    fake("lm_eval"), fake("lm_eval.tasks"), fake("lm_eval.tasks.ifeval")
    for name in ("instructions_util", "instructions", "instructions_registry"):
        module = load("lm_eval.tasks.ifeval." + name, "ifeval/" + name + ".py")
        setattr(sys.modules["lm_eval.tasks.ifeval"], name, module)
    u = load("ifeval_utils", "ifeval/utils.py")
    out["ifeval"] = []
    for name, kwargs in CHECKS:
        strict, loose = [], []
        for answer in ANSWERS:
            scores = u.process_results({"key": 1, "prompt": "", "instruction_id_list": [name], "kwargs": [kwargs]}, [answer])
            strict.append(scores["prompt_level_strict_acc"]), loose.append(scores["prompt_level_loose_acc"])
        out["ifeval"].append({"instruction": name, "kwargs": kwargs, "strict": digits(strict), "loose": digits(loose)})
    out["answers"] = ANSWERS
    with open(os.path.join(HERE, "harness.json"), "w") as f:
        json.dump(out, f, ensure_ascii=False, indent=1)
        f.write("\n")
    print({k: len(v) for k, v in out.items()})


main()
