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


def lines(random, n):
    """Returns an answer and a target of several lines, some of which are empty."""
    pairs = [pair(random, random.randrange(1, 9)) for _ in range(n)]
    return random.choice(["\n", "\n\n"]).join(a for a, _ in pairs), "\n".join(t for _, t in pairs)


def few(random, n):
    """Returns texts of two words, which match in many places."""
    return tuple(" ".join(random.choice("ab") for _ in range(n + random.randrange(5))) for _ in range(2))


def limits():
    """Returns texts about as long as the limits of TER's search, and on both sides of them."""
    words = [f"w{i}" for i in range(130)]
    text = " ".join
    yield from [("", ""), ("a b", ""), ("", "a"), ("a", text(words)), (text(words), "a"), (text(words[:40]), "w39 w3")]
    for n in (9, 10, 11, 12):  # words that are moved together
        yield text(words[n:40] + words[:n]), text(words[:40])
    for n in (48, 49, 50, 51, 52):  # how far they are moved
        yield text(words[3:n] + words[:3] + words[n:70]), text(words[:70])
    for n in (20, 24, 25, 26, 27, 30):  # how far the texts are apart
        yield text(words[n:60]), text(words[:60])
        yield text(words[:60]), text(words[n:60] + words[100:110])
    yield text(words[60:] + words[:60]), text(words)


def main():
    draw = random.Random(7)
    cases = [("", "a b"), ("a b", "a"), ("a", "a"), ("x y z", "a b c"), ("A B", "a b")]
    cases += [pair(draw, draw.randrange(1, 30)) for _ in range(60)]
    cases += [pair(draw, n) for n in (70, 120)]
    cases += [lines(draw, n) for n in (2, 2, 3, 3, 4, 5, 6)]
    cases += [few(draw, n) for n in (2, 3, 4, 5, 6, 8, 12, 20, 40, 60)]
    cases += limits()
    rouge = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"], split_summaries=False)
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
