"""The tasks and rows of record.py."""
import json
import os

import lm_eval

import named


def jsonl(rows):
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def task(name, settings, rows, train=None):
    files = {name + ".yaml": f"task: {name}\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {name}.jsonl\n"
             + (f"    train: {name}-train.jsonl\n" if train else "") + "test_split: test\n" + settings, name + ".jsonl": jsonl(rows)}
    if train:
        files[name + "-train.jsonl"] = jsonl(train)
    return files


FACTS = [("Is the sea salty?", 1), ("Is ice hot?", 0), ("Do birds fly?", 1), ("Is a stone alive?", 0), ("Is coal black?", 1), ("Is snow green?", 0), ("Is iron a metal?", 1)]
YESNO = [{"q": q, "label": a} for q, a in FACTS]
SUMS = [{"q": f"{a} + {b} =", "a": str(a + b)} for a, b in [(1, 2), (4, 4), (10, 7), (3, 9), (6, 5), (8, 1), (2, 2), (7, 7), (5, 9), (20, 22), (9, 9), (3, 1)]]
PICKS = [{"q": f"Which number is {n}?", "choices": ["10", "1", "0", "2"], "answer": a} for n, a in
         [("ten", "10"), ("one", "1"), ("zero", "0"), ("two", "2"), ("a dozen less two", "10"), ("nothing", "0")]]
PAIRS = [{"good": g, "bad": b} for g, b in [("The cat sleeps.", "The cat sleep."), ("Dogs bark.", "Dogs barks."), ("She has eaten.", "She have eaten.")]]
PAGES = [{"page": p} for p in ["The river is long and cold.", "Bread: flour, water, salt & time.", "Über den Wolken — 世界."]]

CASES = {
    "seq2seq": {  # like boolq-seq2seq: a target that is an index, with a generated answer
        "files": task("seq2seq", 'output_type: generate_until\ndoc_to_text: "{{q}}\\nAnswer:"\ndoc_to_choice: [" no", " yes"]\ndoc_to_target: label\n'
                      'target_delimiter: ""\nfewshot_split: test\nnum_fewshot: 2\ngeneration_kwargs: {until: ["\\n\\n", "\\n"], do_sample: false, temperature: 0.0}\n'
                      "metric_list:\n- {metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true, ignore_punctuation: true}\n", YESNO),
        "answers": [" no", " yes", " Yes.", "no"]},
    "digits": {"files": task("digits", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: choices\ndoc_to_target: answer\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n", PICKS)},
    "digit_template": {"files": task("digit_template", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: choices\ndoc_to_target: '{{answer}}'\n", PICKS[1:])},
    "pairs": {"files": task("pairs", 'output_type: multiple_choice\ndoc_to_text: ""\ndoc_to_choice: "{{[good, bad]}}"\ndoc_to_target: 0\nmetric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}]\n', PAIRS)},
    "rolling": {"files": task("rolling", 'output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: page\nmetric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]\n', PAGES)},
    "last_word": {"files": task("last_word", "output_type: loglikelihood\ndoc_to_text: \"{{q.split('=')[0]}}=\"\ndoc_to_target: \"{{' ' + a}}\"\nmetric_list: [{metric: acc}, {metric: perplexity}]\n", SUMS)},
    "sums": {"files": task("sums", "doc_to_text: q\ndoc_to_target: a\nfewshot_split: test\nmetric_list: [{metric: exact_match}]\n", SUMS), "num_fewshot": 5,
             "answers": ["3", "8", "17", "12", "11", "9"]},
    "sums_train": {"files": task("sums_train", "training_split: train\ndoc_to_text: q\ndoc_to_target: a\ndescription: 'Add.\\n\\n'\nmetric_list: [{metric: exact_match}]\n", SUMS[:4], SUMS[4:]),
                   "num_fewshot": 3, "answers": ["3", "8"]},
    "twins": {"files": task("twins", "doc_to_text: q\ndoc_to_target: a\nfewshot_split: test\nmetric_list: [{metric: exact_match}]\n", SUMS[:4] + SUMS[:4] + SUMS[:4]), "num_fewshot": 4,
              "answers": ["3", "8"]},
    "first_n": {"files": task("first_n", "doc_to_text: q\ndoc_to_target: a\nfewshot_split: test\nfewshot_config: {sampler: first_n}\nmetric_list: [{metric: exact_match}]\n", SUMS[:6]),
                "num_fewshot": 3, "answers": ["3", "8"]},
    "repeated": {"files": task("repeated", "doc_to_text: q\ndoc_to_target: a\nrepeats: 3\nmetric_list: [{metric: exact_match}]\n", SUMS), "answers": ["3", "8", "17", "12", "11"]},
    "values": {"files": task("values", 'doc_to_text: "{{flag}} {{x}} {{none}} {{list}} {{d}}"\ndoc_to_target: "{{x}}"\nmetric_list: [{metric: exact_match}]\n',
                             [{"flag": True, "x": 1.0, "none": None, "list": ["a", "it's"], "d": {"k": 1}}, {"flag": False, "x": 2.5, "none": None, "list": ["b", "c"], "d": {"k": 2}}]),
               "answers": ["1.0", "2.5"]},
    "groups_of_regex": {"files": task("groups_of_regex", "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\nfilter_list:\n"
                                      "- {name: strict, filter: [{function: regex, regex_pattern: 'is (\\d*)(x*)'}, {function: take_first}]}\n"
                                      "- {name: last, filter: [{function: regex, regex_pattern: '\\d+', group_select: -1, fallback: none}, {function: remove_whitespace}, {function: take_first}]}\n", SUMS),
                        "answers": ["it is 3", "it is ?", "3 and 8", "17 ", "", "it is 8x"]},
    "accepted": {"files": task("accepted", "doc_to_text: q\ndoc_to_target: names\nmetric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]\n",
                               [{"q": "Who?", "names": ["Ann", "A. Lee"]}, {"q": "Where?", "names": ["here", "there"]}, {"q": "What?", "names": ["an apple"]}]),
                 "answers": ["ann", "A Lee.", "There", "an apple"]},
}

GROUP = {}
for n, rows in (("g_one", PICKS), ("g_two", PICKS[:3]), ("g_three", PICKS[2:])):
    GROUP |= task(n, "output_type: multiple_choice\ndoc_to_text: 'Q: {{q}}'\ndoc_to_choice: choices\ndoc_to_target: answer\nmetric_list: [{metric: acc}" + (", {metric: acc_norm}" if n != "g_two" else "") + "]\n", rows)
for n, members, by in (("g_inner", ["g_one", "g_two"], "true"), ("g_plain", ["g_two", "g_three"], "false")):
    GROUP[n + ".yaml"] = f"group: {n}\ntask: {json.dumps(members)}\naggregate_metric_list:\n- {{metric: acc, aggregation: mean, weight_by_size: {by}}}\n"
GROUP["g_all.yaml"] = ('group: g_all\ntask: ["g_inner", "g_plain"]\naggregate_metric_list:\n- {metric: acc, aggregation: mean}\n- {metric: acc_norm, aggregation: mean}\n')
CASES["g_all"] = {"files": GROUP}

CHAT = "doc_to_text: q\ndoc_to_target: a\nfewshot_split: test\ndescription: 'Add the numbers.\\n\\n'\nmetric_list: [{metric: exact_match}]\n"
CASES |= {
    "chat_turns": {"files": task("chat_turns", CHAT, SUMS), "num_fewshot": 2, "chat": True, "multiturn": True, "answers": ["3", "8"]},
    "chat_single": {"files": task("chat_single", CHAT, SUMS), "num_fewshot": 2, "chat": True, "answers": ["3", "8"]},
    "chat_prefix": {"files": task("chat_prefix", CHAT + "gen_prefix: 'The sum is'\n", SUMS), "num_fewshot": 1, "chat": True, "answers": ["3", "8"]},
    "chat_prefix_turns": {"files": task("chat_prefix_turns", CHAT + "gen_prefix: 'The sum is '\n", SUMS), "num_fewshot": 1, "chat": True, "multiturn": True, "answers": ["3", "8"]},
    "prefix": {"files": task("prefix", CHAT + "gen_prefix: 'The sum is'\n", SUMS), "num_fewshot": 2, "answers": ["3", "8"]},
    "prefix_choices": {"files": task("prefix_choices", "output_type: multiple_choice\ndoc_to_text: \"{{q}}\\n\"\ndoc_to_choice: choices\ndoc_to_target: answer\nfewshot_split: test\ngen_prefix: 'It is {{q}}:'\n", PICKS), "num_fewshot": 1},
    "shot_form": {"files": task("shot_form", "doc_to_text: q\ndoc_to_target: a\ntarget_delimiter: ' -> '\nfewshot_delimiter: '; '\nfewshot_config: {split: train, doc_to_text: 'Example: {{q}}', doc_to_target: '={{a}}', target_delimiter: ' ', fewshot_delimiter: \"\\n\"}\n"
                               "metric_list: [{metric: exact_match}]\n", SUMS[:5], SUMS[5:]), "num_fewshot": 2, "answers": ["1"]},
    "samples": {"files": task("samples", "doc_to_text: q\ndoc_to_target: a\nfewshot_config: {sampler: first_n, samples: [{q: '1 + 1 =', a: '2'}, {q: '2 + 1 =', a: ''}, {q: '7', a: '7'}]}\n"
                             "metric_list: [{metric: exact_match}]\n", SUMS[:5]), "num_fewshot": 3, "answers": ["1"]},
    "tags": {"files": task("tags", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: {a: 'yes', b: 'no'}\ndoc_to_target: label\n", [{"q": q, "label": 1 - a} for q, a in FACTS])},
    "several_right": {"files": task("several_right", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: choices\ndoc_to_target: '{{right}}'\n",
                                    [{"q": q, "choices": ["one", "two", "three"], "right": r} for q, r in (("a", [0, 2]), ("b", [1]), ("c", [0, 1, 2]), ("d", [1, 7]))])},
    "boolean": {"files": task("boolean", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: ['no', 'yes']\ndoc_to_target: label\nfewshot_split: test\n", [{"q": q, "label": bool(a)} for q, a in FACTS]), "num_fewshot": 1},
    "middle": {"files": task("middle", "output_type: multiple_choice\ndoc_to_text: label\ndoc_to_choice: '{{[q + \" It is so\", q + \" It is not so\"]}}'\ndoc_to_target: \"{{' is what they say.'}}\"\ntarget_delimiter: ''\nfewshot_split: test\n", YESNO), "num_fewshot": 2},
    "many": {"files": task("many", "training_split: train\ndoc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match, regexes_to_ignore: ['\\.', 'x+'], ignore_numbers: true}]\n", SUMS[:6],
                           [{"q": f"{i} + {i} =", "a": str(2 * i)} for i in range(600)]), "num_fewshot": 8, "answers": ["3.", "x", "a4"]},
    "validation": {"files": {k: v.replace("test_split: test", "validation_split: test") for k, v in task("validation", "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\n", SUMS).items()},
                   "num_fewshot": 3, "answers": ["3"]},
    "unnamed": {"files": task("unnamed", "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\n", SUMS), "num_fewshot": 3, "answers": ["3"]},
}

TALK = [{"q": f"Translate {i}", "a": a} for i, a in enumerate([
    "The river, which is 1,204 km long, doesn't end here.", "\"Stop!\" she said - twice.", "It costs $3.50 (or 2-3 coins).", "Über 90% aller Vögel fliegen.",
    "A & B: see https://example.org/x_y?z=1.", "No.", "the the the the", "我们 去 河边。", "e-mail me at 5 p.m., please", "Nothing here matches at all",
    "on monday the old man with the grey hat bought a loaf of bread and two apples in the small shop near the river"])]
SAID = ["The river, which is 1,204 km long, does not end here.", "\"Stop!\" he said twice.", "It costs $3.50.", "Über 90% aller Vögel können fliegen.", "A &amp; B: see the page-\nbreak.", "", "the the",
        "我们去河边。", "E-mail me at 5 p.m.", "No.",
        "in the small shop near the river the old man bought two apples and a loaf of bread on monday with the grey hat", "a loaf of bread and two apples the old man with the grey hat bought near the river on monday in the small shop",
        "end here, doesn't the river, which is 1,204 km long"]
CASES |= {
    "translate": {"files": task("translate", "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: bleu}, {metric: chrf}, {metric: chrf++}, {metric: ter}]\n", TALK + [{"q": "Again: " + r["q"], "a": r["a"]} for r in TALK]), "answers": SAID},
    "short": {"files": task("short", "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: bleu}, {metric: chrf}, {metric: ter}]\n", SUMS), "answers": ["3", "8", "x"]},
    "agree": {"files": task("agree", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: ['no', 'yes']\ndoc_to_target: label\nmetric_list: [{metric: acc}, {metric: f1}, {metric: mcc}, {metric: brier_score}, {metric: exact_match}]\n",
                            YESNO + [{"q": q + "!", "label": a} for q, a in FACTS]), "bootstrap": 1000},
    "classes": {"files": task("classes", "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: choices\ndoc_to_target: answer\nmetric_list: [{metric: mcc}, {metric: brier_score}]\n",
                              [dict(r, answer=r["choices"].index(r["answer"])) for r in PICKS]), "bootstrap": 1000},
}


def original(folder, file, name, split, rows, examples=None):
    """A task file of the harness with its Python functions, and rows by hand."""
    base = os.path.join(os.path.dirname(lm_eval.__file__), "tasks", folder)
    files = {f: open(os.path.join(base, f)).read() for f in os.listdir(base) if f in (file, "utils.py", "_template_yaml")}
    for f in files:
        files[f] = "".join(l + "\n" for l in files[f].splitlines() if not l.startswith(("dataset_path", "dataset_name")))
    data = f"dataset_path: json\ndataset_kwargs:\n  data_files:\n    {split}: rows.jsonl\n" + ("    validation: examples.jsonl\n" if examples else "")
    files |= {name + ".yaml": files.pop(file) + data, "rows.jsonl": jsonl(rows)}
    if examples:
        files["examples.jsonl"] = jsonl(examples)
    return files


STORIES = [{"narrative": f"Story {i}: {a} was seen with the {t}. It was late.", "question": "Who is the likeliest murderer?", "choices": str([a, "O'Neil", "Zoë"]), "answer_index": i % 3,
            "answer_choice": [a, "O'Neil", "Zoë"][i % 3]} for i, (a, t) in enumerate([("Ann", "knife"), ("Bob", "rope"), ("Cleo", "lamp"), ("Dan", "cup"), ("Eve", "pen")] * 4)]
EXAMS = [{"question": f"What is {a} + {a}?", "options": [str(a + k) for k in range(10)], "answer": "ABCDEFGHIJ"[a], "answer_index": a} for a in [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]]
CASES |= {
    "leaderboard_musr_murder_mysteries": {"files": original("leaderboard/musr", "musr_murder_mysteries.yaml", "leaderboard_musr_murder_mysteries", "murder_mysteries", STORIES)},
    "leaderboard_mmlu_pro": {"files": original("leaderboard/mmlu_pro", "mmlu_pro.yaml", "leaderboard_mmlu_pro", "test", EXAMS + [dict(e, question="Once more: " + e["question"]) for e in EXAMS], EXAMS[:7])},
}


def functions(name, folder, settings, rows):
    """A task of our own with the Python functions of a folder of the harness."""
    utils = os.path.join(os.path.dirname(lm_eval.__file__), "tasks", folder, "utils.py")
    return task(name, settings, rows) | {"utils.py": open(utils).read()}


PICK = "output_type: multiple_choice\n"
SUBJECTS = [dict(named.mmlu(i), category=["computer science", "law"][i % 2], subject=["anatomy", "virology"][i % 2], domain=["Arts & Humanities", "STEM"][i % 2],
                 subject_category=["Social Sciences", "STEM"][i % 2], Subject=["anatomy", "virology_test.csv_sw-KE.csv"][i % 2]) for i in range(8)]
LETTERS = [{"q": f"What is {i}?", "choices": ["Guilty", "Guilty of Romance", f"No. {i}"], "a": f"({'ABC'[i % 3]})"} for i in range(9)]
LETTER_ANSWERS = ["It is (B).", "guilty of romance!", "I say: Guilty", "answer: C", "no 4", "nothing"]
CASES |= {
    "drop": {"files": functions("drop", "drop", "process_docs: !function utils.process_docs\nprocess_results: !function utils.process_results\ndoc_to_text: '{{passage}} {{question}}'\ndoc_to_target: \"{{answer|join(',')}}\"\n"
                                "metric_list: [{metric: em, aggregation: mean}, {metric: f1, aggregation: mean}]\n", [named.drop(i) for i in range(20)]),
             "answers": ["the river", "12", "12.0", "Answer is A", "4 May 1902", "O'Neil and the river", "B side 4", "", "May 1905, 4"]},
    "truthfulqa_gen": {"files": functions("truthfulqa_gen", "truthfulqa", "process_docs: !function utils.process_docs_gen\nprocess_results: !function utils.process_results_gen\ndoc_to_text: '{{question}}'\ndoc_to_target: ' '\n"
                                          "metric_list: [" + ", ".join("{metric: %s_%s, aggregation: mean}" % (m, k) for m in ("bleu", "rouge1", "rouge2", "rougeL") for k in ("max", "acc", "diff")) + "]\n", [named.truth(i) for i in range(20)]),
                       "answers": ["Bob left the bread in Oslo.", "I have no comment", "Then it rained . The baker left 2 cups , and that is it .", "Zoë's \"old\" map: $3 — in São Paulo!", ""]},
    "truthfulqa_mc2": {"files": functions("truthfulqa_mc2", "truthfulqa", PICK + "process_results: !function utils.process_results_mc2\ndoc_to_text: '{{question}}'\ndoc_to_choice: '{{mc2_targets.choices}}'\ndoc_to_target: 0\n"
                                          "metric_list: [{metric: acc}]\n", [named.mc1(i) for i in range(20)])},
    "gpqa_main_zeroshot": {"files": functions("gpqa_main_zeroshot", "gpqa/zeroshot", PICK + "process_docs: !function utils.process_docs\ndoc_to_text: '{{Question}} {{choice1}} {{choice2}} {{choice3}} {{choice4}}'\n"
                                              "doc_to_choice: ['(A)', '(B)', '(C)', '(D)']\ndoc_to_target: answer\n", [named.gpqa(i) for i in range(20)])},
    "gpqa_main_n_shot": {"refused": "shuffles the choices once for the prompts and again for the scores", "files": functions("gpqa_main_n_shot", "gpqa/n_shot", PICK + "process_docs: !function utils.process_docs\ndoc_to_text: '{{Question}} {{choice1}} {{choice2}} {{choice3}} {{choice4}}'\n"
                                            "doc_to_choice: ['(A)', '(B)', '(C)', '(D)']\ndoc_to_target: answer\n", [named.gpqa(i) for i in range(20)])},
    "gpqa_main_generative_n_shot": {"files": functions("gpqa_main_generative_n_shot", "gpqa/generative", "process_docs: !function utils.process_docs\ndoc_to_text: '{{Question}} {{choice1}} {{choice2}} {{choice3}} {{choice4}}'\n"
                                                       "doc_to_target: answer\nmetric_list: [{metric: exact_match}]\n", [named.gpqa(i) for i in range(20)]), "answers": ["(A)", "(B)"]},
    "leaderboard_gpqa_main": {"files": functions("leaderboard_gpqa_main", "leaderboard/gpqa", PICK + "process_docs: !function utils.process_docs\ndoc_to_text: '{{Question}} {{choice1}} {{choice2}} {{choice3}} {{choice4}}'\n"
                                                 "doc_to_choice: ['(A)', '(B)', '(C)', '(D)']\ndoc_to_target: answer\n", [named.gpqa(i) for i in range(20)])},
    "mmlu_pro_law": {"files": functions("mmlu_pro_law", "mmlu_pro", "process_docs: !function utils.process_law\ndoc_to_text: !function utils.doc_to_text\ndoc_to_target: answer\nfewshot_split: test\n"
                                        "fewshot_config: {sampler: first_n, doc_to_text: !function utils.fewshot_to_text, doc_to_target: !function utils.fewshot_to_target}\nmetric_list: [{metric: exact_match}]\n",
                                        [dict(named.mmlu_pro(i), category=["law", "physics"][i % 2]) for i in range(40)]), "num_fewshot": 2, "answers": ["A", "B", "C"]},
    "mmlu_pro_computer_science": {"files": functions("mmlu_pro_computer_science", "mmlu_pro", "process_docs: !function utils.process_computer_science\ndoc_to_text: question\ndoc_to_target: '{{answer}}'\n"
                                                     "metric_list: [{metric: exact_match}]\n", SUBJECTS), "answers": ["0", "1"]},
    "letters": {"files": task("letters", "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\nfilter_list:\n"
                              "- {name: plain, filter: [{function: multi_choice_regex, regex_pattern: '(\\([A-C]\\))'}, {function: take_first}]}\n"
                              "- {name: loose, filter: [{function: multi_choice_regex, regex_pattern: '(\\([A-C]\\))', group_select: -1, ignore_case: true, ignore_punctuation: true, regexes_to_ignore: ['!', 'say']}, {function: take_first}]}\n"
                              "- {name: mapped, filter: [{function: map, mapping_dict: {'answer: C': '(C)', 'no 4': '(A)'}, default_value: '(B)'}, {function: take_first}]}\n", LETTERS), "answers": LETTER_ANSWERS},
}
for prefix, folder, column in (("global_mmlu_full_en", "global_mmlu/full/en", "anatomy"), ("global_mmlu_en", "global_mmlu/default/en", "social_sciences"),
                               ("include_base_44_greek", "include/default/Greek", "arts_humanities")):
    name = f"{prefix}_{column}"
    CASES[name] = {"files": functions(name, folder, PICK + f"process_docs: !function utils.process_{column}\ndoc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n", SUBJECTS)}

SOLUTIONS = ["$\\boxed{4}$", "$\\boxed{\\frac{1}{2}}$", "\\boxed 7$ so", "$\\boxed{x^{2}+1}$", "none", "\\fbox{3}", "$a=\\boxed{1{,}000}$ and $\\boxed{12\\text{ cm}}$", "\\boxed{\\text{(A)}}", "\\boxed{90^\\circ}", "\\boxed{\\sqrt{2}}"]
FINALS = ["$4$", "$\\frac12$", "7", "the $x^2+1$", "$1000$", "$12$ cm", "A", "$\\text{(A)}$", "90 degrees", "$x=\\sqrt2$", "$0.5$", "1,000"]
CASES |= {
    "leaderboard_math_algebra_hard": {"undecided": True, "files": functions("leaderboard_math_algebra_hard", "leaderboard/math", "process_docs: !function utils.process_docs\nprocess_results: !function utils.process_results\n"
                                      "doc_to_text: !function utils.doc_to_text\ndoc_to_target: '{{answer}}'\nmetric_list: [{metric: exact_match, aggregation: mean}, {metric: exact_match_original, aggregation: mean}]\n",
                                      [{"problem": f"What is {i}?", "solution": f"It is {s}.", "level": "Level 5" if i % 11 else "Level 4"} for i, s in enumerate(SOLUTIONS * 6)]),
                                      "answers": [f"So.\nFinal Answer: The final answer is {a}. I hope it is correct." for a in FINALS] + ["no idea"]},
}

EVALUATED = ["a", "b", "c", "a", "b", "a", "a", "c"]
CASES |= {
    "topics": {"files": functions("topics", "afrobench/sib/prompt_1", PICK + "doc_to_text: q\ndoc_to_choice: ['a', 'b', 'c']\ndoc_to_target: label\n"
                                  "metric_list: [{metric: f1, aggregation: !function utils.weighted_f1_score, average: weighted, ignore_case: true}, {metric: acc, hf_evaluate: false}]\n",
                                  [{"q": f"{i}", "label": EVALUATED[i % len(EVALUATED)]} for i in range(20)])},
}

# Functions by hand, which run in Python here too.
OWN = '''import datasets


def process_docs(dataset: datasets.Dataset):
    def changed(doc):
        return {"question": doc["q"].upper(), "number": len(doc["a"])}

    return dataset.filter(lambda doc: doc["q"][0] != "1").map(changed)


def doc_to_text(doc):
    return f"{doc['question']} ({doc['number']})"


def doc_to_target(doc):
    return doc["a"] + "."


def doc_to_choice(doc):
    return [doc["a"], doc["a"] + "0", "none"]


def examples():
    return [{"q": str(i), "a": str(i + 1), "question": "E", "number": i} for i in range(2)]


def process_results(doc, results):
    return {"acc": int(results[0].strip()[:1] == doc["a"][:1]), "length": len(results[0]) / 2}


def process_choices(doc, results):
    lls, greedy = zip(*results)
    return {"acc": bool(greedy[0]), "margin": lls[0] - max(lls[1:])}
'''
FIELDS = "process_docs: !function utils.process_docs\ndoc_to_text: !function utils.doc_to_text\n"
CASES |= {
    "own_answers": {"python": True, "files": task("own_answers", FIELDS + "doc_to_target: !function utils.doc_to_target\nprocess_results: !function utils.process_results\nfewshot_config: {sampler: first_n, samples: !function utils.examples}\n"
                                                  "metric_list: [{metric: acc, aggregation: mean}, {metric: length, aggregation: mean}]\n", SUMS) | {"utils.py": OWN}, "num_fewshot": 2, "answers": ["8", "12 ", "4", ""]},
    "own_choices": {"python": True, "files": task("own_choices", PICK + FIELDS + "doc_to_choice: !function utils.doc_to_choice\ndoc_to_target: 0\nprocess_results: !function utils.process_choices\n"
                                                  "metric_list: [{metric: acc, aggregation: mean}, {metric: margin, aggregation: mean}]\n", SUMS) | {"utils.py": OWN}},
}

# Filters, metrics and aggregations by hand.
SCORING = '''import math


def before_dot(resps, docs):
    return [[r.split(".")[0] + doc["mark"] for r in resp] for resp, doc in zip(resps, docs)]


def first(resps, docs):
    return map(lambda r: r[0].strip(), resps)


class Found:
    def __init__(self, words, fallback="none"):
        self.words, self.fallback = words, fallback

    def apply(self, resps, docs):
        return [[next((v for k, v in self.words.items() if k in r), self.fallback) for r in resp] for resp in resps]


def closeness(references, predictions, scale=1):
    answer = predictions[0] if isinstance(predictions[0], str) else predictions[0][0]
    return scale / (1 + abs(len(references[0]) - len(answer)))


def pair(items):
    return items


def share(items):
    return sum(str(gold)[:1] in pred for gold, pred in items) / len(items)


def spread(items):
    return max(items) - min(items)


def several(references, predictions):
    return {"length": len(predictions[0]), "empty": predictions[0] == ""}


def macro_f1(items):
    golds, preds = zip(*items)
    scores = []
    for c in set(golds) | set(preds):
        both = sum(g == p == c for g, p in items)
        scores.append(2 * both / (golds.count(c) + preds.count(c)))
    return sum(scores) / len(scores)


def entropy(items):
    return sum(-p * math.log(p) for gold, probs in items for p in probs) / len(items)


def process_results(doc, results):
    scores = {"kind": (doc["a"], {len(results[0]): results}), "maybe": float("nan") if results[0] == "" else 1.0 + len(results[0]), "middle": len(results[0])}
    if doc["a"] > "5":
        scores["large"] = len(results[0] + doc["a"])
    return scores


def kinds(items):
    return sum(n for _, by in items for n in by) / len({gold for gold, _ in items})


def process_page(doc, results):
    return {"word_perplexity": (results[0], len(doc["page"].split())), "byte_perplexity": (results[0], len(doc["page"])), "bits_per_byte": (results[0], 7)}
'''
MARKED = [dict(s, mark="!?"[i % 2]) for i, s in enumerate(SUMS)]
CASES |= {
    "own_metrics": {"python": True, "files": task("own_metrics", "doc_to_text: q\ndoc_to_target: a\nmetric_list:\n- {metric: !function utils.closeness, aggregation: mean, higher_is_better: true, scale: 2}\n"
                    "- {metric: !function utils.pair, aggregation: !function utils.share, higher_is_better: true}\n- {metric: f1, aggregation: !function utils.share}\n- {metric: exact_match, aggregation: !function utils.spread}\n"
                    "filter_list:\n- {name: dot, filter: [{function: custom, filter_fn: !function utils.before_dot}, {function: take_first}]}\n- {name: first, filter: [{function: custom, filter_fn: !function utils.first}]}\n"
                    "- {name: found, filter: [{function: !function utils.Found, words: {z: 'one', ten: '10', eight: '8'}}]}\n", MARKED) | {"utils.py": SCORING}, "answers": ["3. or 4", " 17", "ten", "eight.", "zz", "", "12"]},
    "own_several": {"python": True, "files": task("own_several", "doc_to_text: q\ndoc_to_target: a\nmetric_list:\n- {metric: !function utils.several, aggregation: mean, higher_is_better: false}\n", SUMS) | {"utils.py": SCORING}, "answers": ["3", "", "seventeen"]},
    "own_targets": {"python": True, "files": task("own_targets", "doc_to_text: q\ndoc_to_target: names\nmetric_list:\n- {metric: !function utils.closeness, aggregation: mean, higher_is_better: true}\n- {metric: exact_match, aggregation: !function utils.spread}\n",
                    [{"q": "Who?", "names": ["Ann", "A. Lee"]}, {"q": "Where?", "names": ["here", "there"]}, {"q": "What?", "names": ["an apple"]}]) | {"utils.py": SCORING}, "answers": ["Ann", "nowhere"]},
    "own_classes": {"python": True, "files": task("own_classes", PICK + "doc_to_text: q\ndoc_to_choice: ['a', 'b', 'c']\ndoc_to_target: label\nmetric_list:\n- {metric: f1, aggregation: !function utils.macro_f1, average: macro, hf_evaluate: true}\n"
                    "- {metric: brier_score, aggregation: !function utils.entropy}\n- {metric: acc, aggregation: !function utils.spread}\n- {metric: acc_norm}\n", [{"q": f"{i}", "label": EVALUATED[i % len(EVALUATED)]} for i in range(20)]) | {"utils.py": SCORING}},
    "own_results": {"python": True, "bootstrap": 1000, "files": task("own_results", "doc_to_text: q\ndoc_to_target: a\nprocess_results: !function utils.process_results\nmetric_list:\n- {metric: kind, aggregation: !function utils.kinds, higher_is_better: true}\n"
                    "- {metric: maybe, aggregation: nanmean, higher_is_better: true}\n- {metric: middle, aggregation: median, higher_is_better: true}\n", SUMS) | {"utils.py": SCORING}, "answers": ["3", "", "8", "seventeen"]},
    "own_pages": {"python": True, "files": task("own_pages", "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: page\nprocess_results: !function utils.process_page\nmetric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]\n", PAGES) | {"utils.py": SCORING}},
    "spans": {"files": task("spans", "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\nfilter_list:\n- {name: spans, filter: [{function: format_span}, {function: take_first}]}\n",
                            [{"q": f"{i}", "a": "per: ann $ loc: rome"} for i in range(12)]),
              "answers": ["Person: Ann $$ Location: Rome", "PER: Ann, Bob $$ LOC: none\nDate : 4 May$$", "people: Ann\nplaces: Rome", "Timeorg: x organisation: y", "no entities", "person:ann $ country : Rome, Oslo $$$$", "persons: loc: here\tORG:é, $ Company:  A B  "]},
    "twice": {"files": {k: v.replace("doc_to_text: a\n", "doc_to_text: a\ndoc_to_text: q\n") for k, v in task("twice", "doc_to_text: a\ndoc_to_target: a\ngeneration_kwargs: {until: ['x'], num_beams: 1, until: ['y']}\nmetric_list: [{metric: exact_match, ignore_case: true, ignore_case: false}]\n", SUMS).items()},
              "answers": ["3", "8"]},
}
