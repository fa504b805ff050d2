"""The synthetic instruction corpus: each document is a question with its answer, from one of ten task families.

Every family but story has answers that a rule can check, so accuracy on the held-out questions is a measurement.
Run as a program, it prints held-out questions; `python3 corpus.py --heldout 150` reproduces models/heldout.jsonl.
"""

import argparse
import json
import random

from words import (
    ANIMALS, BAD, CAPITALS, CITIES, COUNTABLES, DAYS, FEELINGS, GOOD, JOBS, MONTHS, NAMES, OPPOSITES, PLACES,
    PRODUCTS, THINGS, WORDS,
)

# Families whose questions are too few to keep any out of training: a capital cannot be worked out from the others.
# Asking them again measures recall, not generalisation.
CLOSED_FAMILIES = ("capital", "opposite", "calendar")
HELDOUT_SEED = 99

# Each family below takes a random.Random and returns (question, answer). The order of the draws defines the corpus.


def arithmetic(r):
    kind = r.random()
    if kind < 0.4:
        a, b = r.randint(0, 99), r.randint(0, 99)
        expression, value = f"{a} + {b}", a + b
    elif kind < 0.75:
        a, b = r.randint(0, 99), r.randint(0, 99)
        a, b = max(a, b), min(a, b)
        expression, value = f"{a} - {b}", a - b
    else:
        a, b = r.randint(0, 12), r.randint(0, 12)
        expression, value = f"{a} * {b}", a * b
    question = r.choice(["What is {}?", "Compute {}.", "Calculate {}.", "{} = ?"]).format(expression)
    return question, str(value)


def capital(r):
    country = r.choice(list(CAPITALS))
    city = CAPITALS[country]
    if r.random() < 0.75:
        question = r.choice(
            ["What is the capital of {}?", "Name the capital of {}.", "Which city is the capital of {}?"]
        )
        return question.format(country), city + "."
    return f"{city} is the capital of which country?", country + "."


def opposite(r):
    a, b = r.choice(OPPOSITES)
    if r.random() < 0.5:
        a, b = b, a
    return r.choice(['What is the opposite of "{}"?', 'Give the antonym of "{}".']).format(a), b + "."


def calendar(r):
    if r.random() < 0.5:
        kind, names = "day", DAYS
    else:
        kind, names = "month", MONTHS
    i = r.randrange(len(names))
    side, step = ("after", 1) if r.random() < 0.5 else ("before", -1)
    return f"Which {kind} comes {side} {names[i]}?", names[(i + step) % len(names)] + "."


def sort_words(r):
    words = r.sample(WORDS, r.randint(2, 5))
    return "Sort these words alphabetically: " + ", ".join(words), ", ".join(sorted(words))


def upper(r):
    """Three small word tasks: capital letters, reversing, counting."""
    words = r.sample(WORDS, r.randint(1, 3))
    kind = r.random()
    if kind < 0.4:
        return "Write in capital letters: " + " ".join(words), " ".join(words).upper()
    if kind < 0.7:
        return "Repeat these words in reverse order: " + ", ".join(words), ", ".join(reversed(words))
    count = r.randint(1, 6)
    words = r.sample(WORDS, count)
    return "How many words are in this list? " + ", ".join(words), str(count)


def record(r):
    name, age, city, job = r.choice(NAMES), r.randint(18, 90), r.choice(CITIES), r.choice(JOBS)
    answer = json.dumps({"name": name, "age": age, "city": city, "job": job})
    if r.random() < 0.5:
        return f"Write a JSON record for {name}, a {job} aged {age} from {city}.", answer
    return (
        f"Extract the person as JSON: {name} lives in {city} and works as a {job}. {name} is {age} years old.",
        answer,
    )


def sentiment(r):
    good = r.random() < 0.5
    adjective = r.choice(GOOD if good else BAD)
    product = r.choice(PRODUCTS)
    review = r.choice([
        f"This {product} was {adjective}.",
        f"What a {adjective} {product}!",
        f"I found the {product} {adjective}.",
        f"The {product} is {adjective}, and I {'would' if good else 'would not'} buy it again.",
    ])
    question = r.choice(["Is this review positive or negative? ", "Classify the sentiment: "])
    return question + review, "positive" if good else "negative"


def story(r):
    animal, friend = r.sample(ANIMALS, 2)
    name, friend_name = r.sample(NAMES, 2)
    thing, place, feeling, friend_feeling = (
        r.choice(THINGS), r.choice(PLACES), r.choice(FEELINGS), r.choice(FEELINGS),
    )
    question = r.choice([
        f"Write a short story about a {animal} and a {thing}.",
        f"Tell me a story about a {feeling} {animal} named {name} and a {thing}.",
    ])
    if name not in question:
        feeling = r.choice(FEELINGS)
    found = (
        f"One morning {name} found an old {thing} beside the path."
        if r.random() < 0.5
        else f"One evening {name} saw an old {thing} under a tree."
    )
    sentences = [
        f"Once upon a time there was a {feeling} {animal} named {name}, who lived near the {place}.",
        found,
        r.choice([f'"Whose {thing} is this?" asked {name}.', f'"What a fine {thing}," said {name}.']),
        f"Just then a {friend_feeling} {friend} named {friend_name} came along and said that the {thing} had been "
        "lost for many years.",
        r.choice([
            f"{name} gave the {thing} back, and {friend_name} smiled.",
            f"{name} and {friend_name} carried the {thing} home together.",
        ]),
        f"From that day on, the {animal} and the {friend} were the best of friends.",
    ]
    return question, " ".join(sentences)


def explain(r):
    """A sum worked out in words, or a plan for a day."""
    name, country = r.choice(NAMES), r.choice(list(CAPITALS))
    a, b = r.randint(2, 30), r.randint(2, 30)
    things = r.choice(COUNTABLES)
    if r.random() >= 0.6:
        city = CAPITALS[country]
        return (
            f"Plan a day in {city}.",
            f"In the morning, walk through the old town of {city}. At noon, have lunch at a small cafe. "
            f"In the afternoon, visit the main museum of {country}. In the evening, listen to music by the river.",
        )
    if r.random() < 0.5:
        return (
            f"{name} has {a} {things} and gets {b} more. How many {things} does {name} have now?",
            f"{name} starts with {a} {things} and gets {b} more. {a} + {b} = {a + b}. The answer is {a + b}.",
        )
    a, b = max(a, b), min(a, b)
    return (
        f"{name} has {a} {things} and gives away {b}. How many {things} are left?",
        f"{name} starts with {a} {things} and gives away {b}. {a} - {b} = {a - b}. The answer is {a - b}.",
    )


# Families, each with its relative frequency.
FAMILIES = [
    (arithmetic, 4), (capital, 1.5), (opposite, 1), (calendar, 1), (sort_words, 2), (upper, 1.5), (record, 2),
    (sentiment, 1), (story, 3), (explain, 2),
]


def document(r):
    """Draws one document: (family name, question, answer)."""
    family = r.choices([f for f, _ in FAMILIES], [weight for _, weight in FAMILIES])[0]
    return (family.__name__, *family(r))


def reserved(question):
    """Whether a question is kept out of training: one in twenty, by the 32-bit FNV-1a hash of its text."""
    h = 2166136261
    for byte in question.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    return h % 20 == 0


def training_shard(seed, count):
    """Returns `count` (question, answer) pairs for training, without reserved questions."""
    r = random.Random(seed)
    pairs = []
    while len(pairs) < count:
        family, question, answer = document(r)
        if family in CLOSED_FAMILIES or not reserved(question):
            pairs.append((question, answer))
    return pairs


def heldout(count):
    """Returns `count` distinct test questions: reserved ones, and questions of CLOSED_FAMILIES."""
    r = random.Random(HELDOUT_SEED)
    rows, seen = [], set()
    while len(rows) < count:
        family, question, answer = document(r)
        if question in seen or not (family in CLOSED_FAMILIES or reserved(question)):
            continue
        seen.add(question)
        rows.append({"id": f"heldout-{len(rows):03d}", "family": family, "question": question, "answer": answer})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print held-out questions, one JSON object per line.")
    parser.add_argument("--heldout", type=int, default=150, metavar="N", help="how many questions (default 150)")
    for row in heldout(parser.parse_args().heldout):
        print(json.dumps(row))
