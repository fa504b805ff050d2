"""Prints python.json: draws of Python's module random."""
import random, json
out = []
for seed in (0, 1, 1234, 42, 2**32, 2**40 + 7, 2**64 - 1):
    for n, k in ((1, 1), (5, 3), (21, 5), (22, 5), (1000, 5), (85, 6), (86, 6), (100, 25), (100000, 6), (700, 100)):
        r = random.Random(seed)
        shuffled = list(range(min(n, 30)))
        out.append({"seed": str(seed), "n": n, "k": k, "samples": [r.sample(range(n), k)[:8] for _ in range(2)], "float": r.random(), "choices": r.choices(range(n), k=3), "shuffled": (r.shuffle(shuffled), shuffled)[1]})
print("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]")
