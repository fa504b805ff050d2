"""Writes corpus.json: scores of random pairs of sentences by SacreBLEU and rouge-score.

pip install sacrebleu==2.6.0 rouge-score==0.1.2; python corpus.py
"""

import json
import os
import random

from rouge_score import rouge_scorer
from sacrebleu.metrics import BLEU, CHRF, TER

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "Ran", "3.5", "well-known,", "it's", "x.", "&amp;", "Ünder", "\"so\"", "1,000"]


def pair(random, n):
    """Returns a target, and an answer in which words are moved, replaced, left out and added."""
    target = [random.choice(WORDS) for _ in range(n)]
    answer = list(target)
    for _ in range(random.randrange(4)):
        if len(answer) < 3:
            break
        a, b = sorted(random.sample(range(len(answer)), 2))
        moved = answer[a:b]
        del answer[a:b]
        at = random.randrange(len(answer) + 1)
        answer[at:at] = moved
    for _ in range(random.randrange(4)):
        at = random.randrange(len(answer) + 1)
        answer[at : at + random.randrange(2)] = [random.choice(WORDS)] * random.randrange(2)
    return " ".join(answer), " ".join(target)


def main():
    draw = random.Random(7)
    cases = [("", "a b"), ("a b", "a"), ("a", "a"), ("x y z", "a b c"), ("A B", "a b")]
    cases += [pair(draw, draw.randrange(1, 30)) for _ in range(60)]
    cases += [pair(draw, n) for n in (70, 120)]
    rouge = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeLsum"], split_summaries=False)
    made = []
    for answer, target in cases:
        scores = {
            "bleu": BLEU().corpus_score([answer], [[target]]).score,
            "chrf": CHRF().corpus_score([answer], [[target]]).score,
            "chrf++": CHRF(word_order=2).corpus_score([answer], [[target]]).score,
            "ter": TER().corpus_score([answer], [[target]]).score,
        }
        scores.update({k: 100 * v.fmeasure for k, v in rouge.score(target, answer).items()})
        made.append({"answer": answer, "target": target, "scores": scores})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus.json")
    with open(path, "w") as f:
        json.dump(made, f, ensure_ascii=False, indent=0)
        f.write("\n")


main()
