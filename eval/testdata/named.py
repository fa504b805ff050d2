"""Rows by hand, in the form of the data sets of the tasks that Ingot promises to run: 20 rows and 12 examples of each."""
import fnmatch
import re

PEOPLE = ["Ann", "Bob", "Cleo", "Dan", "Zoë", "O'Neil", "the baker", "Lin", "Ms. Ode", "nobody"]
THINGS = ["river", "iron pot", "lamp", "bread", "2 cups", "café", "letter", "snow-storm", "\"old\" map", "engine"]
PLACES = ["Oslo", "the garden", "Rome", "a small shop", "São Paulo", "the 3rd floor", "home", "Lima", "the attic", "school"]


def pick(words, i, k=0):
    return words[(7 * i + 3 * k + i // len(words)) % len(words)]


def four(i):
    return [pick(THINGS, i, k) for k in range(4)]


def sentence(i, k=0):
    return f"{pick(PEOPLE, i, k)} left the {pick(THINGS, i, k + 1)} in {pick(PLACES, i, k)}."


def arc(i):
    labels = list("1234") if i % 3 == 0 else list("ABCD")
    return {"id": f"r{i}", "question": f"What did {pick(PEOPLE, i)} need in {pick(PLACES, i)}?", "choices": {"text": four(i), "label": labels}, "answerKey": labels[i % 4]}


def hellaswag(i):
    mark = "[header] How to begin [title] " if i % 3 == 0 else ""
    return {"ind": i, "activity_label": f"Activity {i}", "ctx_a": mark + sentence(i), "ctx_b": ["the man", "", "ÉLAN is", "She SMILES"][i % 4], "ctx": "",
            "endings": [sentence(i, k) + ("  [step] More." if k == 2 else "") for k in range(4)], "label": str(i % 4)}


def mmlu(i):
    return {"question": f" Which of these is number {i}? ", "subject": "anatomy", "choices": four(i), "answer": i % 4}


def mc1(i):
    n = 2 + i % 4
    return {"question": f"Is it true that {sentence(i)[:-1]}?", "mc1_targets": {"choices": [sentence(i, k) for k in range(n)], "labels": [1] + [0] * (n - 1)},
            "mc2_targets": {"choices": [sentence(i, k) for k in range(n + 1)], "labels": [1 if k < 1 + i % 2 else 0 for k in range(n + 1)]}}


def truth(i):
    return {"question": f" Who left the {pick(THINGS, i)}? ", "best_answer": sentence(i), "correct_answers": [sentence(i), sentence(i, 1)[:-1], " "],
            "incorrect_answers": [sentence(i, 2), sentence(i, 3) + " Then it rained . Nobody knows."]}


def winogrande(i):
    return {"sentence": f"{pick(PEOPLE, i)} met {pick(PEOPLE, i, 1)}, but _ did not see the {pick(THINGS, i)}.", "option1": pick(PEOPLE, i), "option2": pick(PEOPLE, i, 1), "answer": "12"[i % 2]}


def gsm8k(i):
    return {"question": f"{pick(PEOPLE, i)} has {i} coins and finds {i * 300}. How many are there?", "answer": f"{i} + {i * 300} = <<{i}+{i * 300}={i * 301}>>{i * 301:,}\n#### {i * 301:,}"}


CHECKS = [("punctuation:no_comma", {}), ("length_constraints:number_words", {"num_words": 3 , "relation": "at least"}), ("detectable_format:title", {}), ("keywords:existence", {"keywords": ["river", "answer"]}),
          ("startend:quotation", {}), ("detectable_format:number_bullet_lists", {"num_bullets": 1}), ("keywords:forbidden_words", {"forbidden_words": ["more"]}), ("detectable_format:json_format", {}),
          ("keywords:frequency", {"keyword": "answer", "frequency": 1, "relation": "at least"}), ("detectable_format:constrained_response", {})]


def ifeval(i):
    some = [CHECKS[(i + 3 * k) % len(CHECKS)] for k in range(1 + i % 3)]
    return {"key": i, "prompt": f"Write about the {pick(THINGS, i)}.", "instruction_id_list": [c[0] for c in some], "kwargs": [c[1] for c in some]}


def bbh(targets, end=""):
    def row(i):
        return {"input": f"Consider {i}: {sentence(i)}\nOptions:\n(A) {pick(THINGS, i)}\n(B) {pick(THINGS, i, 1)}\n(C) it{end}", "target": targets[i % len(targets)]}
    return row


def math(i):
    boxed = [f"\\boxed{{{i}}}", f"\\boxed{{\\frac{{{i}}}{{7}}}}", f"\\boxed {i}", "\\boxed{x^{2}+1}", "no box", f"\\fbox{{{i}}}"][i % 6]
    return {"problem": f"Find the number {i}.", "solution": f"It follows that it is ${boxed}$.", "level": "Level 5", "type": "Algebra"}


def gpqa(i):
    return {"Question": f"What is {i}?", "Correct Answer": f" right {i} ", "Incorrect Answer 1": f"wrong [title] {i}a", "Incorrect Answer 2": f"[x] wrong {i}b", "Incorrect Answer 3": f"{i}"}


def musr(i):
    choices = [pick(PEOPLE, i), pick(PEOPLE, i, 1), pick(PEOPLE, i, 2)]
    return {"narrative": f"{sentence(i)} {sentence(i, 1)}", "question": "Who is the likeliest one?", "choices": str(choices), "answer_index": i % 3, "answer_choice": choices[i % 3]}


def mmlu_pro(i):
    n = 10 if i % 3 else 4
    return {"question_id": i, "question": f"What is number {i}?", "options": [f" {pick(THINGS, i, k)} {k}" for k in range(n)], "answer": "ABCD"[i % 4], "answer_index": i % 4, "category": "law",
            "cot_content": f"A: Let's think step by step. It is {i}. The answer is ({'ABCD'[i % 4]})."}


def piqa(i):
    return {"goal": f"How do you mend the {pick(THINGS, i)}?", "sol1": sentence(i), "sol2": sentence(i, 1), "label": i % 2}


def boolq(i):
    return {"passage": sentence(i), "question": f"is the {pick(THINGS, i)} there", "label": i % 2, "idx": i}


def openbookqa(i):
    return {"question_stem": f"The {pick(THINGS, i)} is", "choices": {"text": four(i), "label": list("ABCD")}, "answerKey": "ABCD"[i % 4]}


def sciq(i):
    return {"question": f"What is {i}?", "distractor1": pick(THINGS, i), "distractor2": pick(THINGS, i, 1), "distractor3": pick(THINGS, i, 2), "correct_answer": pick(PLACES, i), "support": ["", f" {sentence(i)} "][i % 2]}


def lambada(i):
    return {"text": f"{sentence(i)} {pick(PEOPLE, i, 1)} went back to {pick(PLACES, i)}", "domain": "none"}


def triviaqa(i):
    return {"question": f"Who left the {pick(THINGS, i)}?", "answer": {"value": pick(PEOPLE, i), "aliases": [pick(PEOPLE, i), pick(PEOPLE, i).upper(), "no idea"]}}


def nq_open(i):
    return {"question": f"who left the {pick(THINGS, i)}", "answer": [pick(PEOPLE, i), pick(PEOPLE, i, 1)]}


def drop(i):
    number, spans, date = [(str(12 * i), [], ["", "", ""]), ("", [pick(PEOPLE, i), "the river"], ["", "", ""]), ("", [], ["4", "May", str(1900 + i)])][i % 3]
    day = [{"day": d, "month": m, "year": y} for d, m, y in (date, ("", "", ""))]
    return {"section_id": "s", "query_id": f"q{i}", "passage": sentence(i), "question": "What was it?", "answer": {"number": number, "date": day[0], "spans": spans, "worker_id": "", "hit_id": ""},
            "validated_answers": {"number": [number, ""], "date": day, "spans": [spans, ["the answer is A", "B-side, 4.0"]], "worker_id": ["", ""], "hit_id": ["", ""]}}


def wikitext(i):
    return {"page": f" = Page {i} = \n \n {sentence(i)} It is 1 @,@ {200 + i} km long , and ( as { pick(PEOPLE, i)} said ) \" well @-@ known \" . \n = = More = = \n The boys ' toys : N of them \n"}


def blimp(i):
    return {"sentence_good": sentence(i), "sentence_bad": sentence(i, 1).lower(), "UID": "x"}


# Targets of the tasks of BIG-Bench Hard whose answer is not a letter.
BBH = {
    "boolean_expressions": ["False", "True"], "causal_judgement": ["Yes", "No"], "dyck_languages": ["] )", "> } )", ")"], "formal_fallacies": ["valid", "invalid"], "multistep_arithmetic_two": ["24", "-3"],
    "navigate": ["Yes", "No"], "object_counting": ["0", "7", "12"], "sports_understanding": ["yes", "no"], "web_of_lies": ["Yes", "No"], "word_sorting": ["bread iron lamp", "cup snow"],
}


ROWS = [
    ("arc/arc_*.yaml", arc), ("hellaswag/hellaswag.yaml", hellaswag), ("mmlu/default/mmlu_*.yaml", mmlu), ("truthfulqa/truthfulqa_gen.yaml", truth), ("truthfulqa/truthfulqa_mc*.yaml", mc1),
    ("winogrande/default.yaml", winogrande), ("gsm8k/gsm8k*.yaml", gsm8k), ("ifeval/ifeval.yaml", ifeval), ("leaderboard/ifeval/*.yaml", ifeval),
    *((pattern.format(name), bbh(targets, "\nList: snow iron cup lamp bread" if name == "word_sorting" else "")) for name, targets in BBH.items() for pattern in ("leaderboard/bbh_mc/{}.yaml", "bbh/*/{}.yaml")),
    ("leaderboard/bbh_mc/*.yaml", bbh(["(A)", "(B)"])), ("bbh/*/*.yaml", bbh(["(A)", "(B)"])),
    ("leaderboard/math/*.yaml", math), ("gpqa/*/*.yaml", gpqa), ("leaderboard/gpqa/*.yaml", gpqa), ("leaderboard/musr/*.yaml", musr),
    ("leaderboard/mmlu_pro/*.yaml", mmlu_pro), ("mmlu_pro/mmlu_pro_*.yaml", mmlu_pro), ("piqa/piqa.yaml", piqa), ("super_glue/boolq/*.yaml", boolq), ("openbookqa/openbookqa.yaml", openbookqa),
    ("sciq/sciq.yaml", sciq), ("lambada/lambada_*.yaml", lambada), ("lambada_cloze/*.yaml", lambada), ("lambada_multilingual/*.yaml", lambada), ("triviaqa/default.yaml", triviaqa),
    ("nq_open/nq_open.yaml", nq_open), ("drop/default.yaml", drop), ("wikitext/wikitext.yaml", wikitext), ("blimp/*.yaml", blimp),
]

# Answers to be scored beside the right ones and those of share.py.
ANSWERS = [
    ("truthfulqa/truthfulqa_gen.yaml", ["Bob left the bread in Oslo.", "I have no comment", "Then it rained . The baker left 2 cups , and that is it .", "Zoë's \"old\" map: $3 — in São Paulo!"]),
    ("*ifeval/ifeval.yaml", ["The river runs", "<<An answer>> * more and more, of the river", "\"No. The answer, so it is.\"", "- one point, answer", "My answer is yes.", '{"answer": "river"}']),
    ("drop/*.yaml", ["the river", "12", "12.0", "Answer is A", "4 May 1902", "O'Neil and the river", "B side 4", "May 1905, 4"]),
    ("leaderboard/math/*.yaml", [f"So.\nFinal Answer: The final answer is {a}. I hope it is correct." for a in ("$4$", "$\\frac87$", "7", "the $x^2+1$", "$13$ cm", "\\text{8}", "$x=9$", "$0.5$")]),
    ("gsm8k/*.yaml", ["The answer is 1,204.", "The final answer is $602", "so 903.\n#### 903", "#### -301"]),
    ("bbh/*/*.yaml", ["So the answer is (A).", "the answer is True.", "So the answer is 7, the answer is 12.", "Hence the answer is valid"]),
    ("mmlu_pro/*.yaml", ["The answer is (A).", "answer is B.", "the answer is (C), or the answer is (D)"]),
]


def rows(file, n):
    """Returns n rows for a task file, or None if there are none by hand."""
    make = next((m for pattern, m in ROWS if fnmatch.fnmatchcase(file, pattern)), None)
    subject = re.fullmatch(r"mmlu_pro/mmlu_pro_(\w+)\.yaml", file)
    more = {"category": subject[1].replace("_", " ")} if subject else {}
    return make and [make(i) | more for i in range(n)]
