"""Rewrites the results in reference.json from its scores, and maxt.json, with other people's statistics.

python3 -m venv venv && venv/bin/pip install numpy scipy statsmodels && venv/bin/python reference.py

The files in the repository were written with scipy 1.17.1 and statsmodels 0.15.0."""
import json
import os

import numpy as np
from scipy import optimize, stats
from statsmodels.api import OLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

FOLDER = os.path.dirname(os.path.abspath(__file__))
LEVEL = 0.9


def tango(lost, won, n):
    """The ends of the score interval. The likeliest shares under a difference come from the score equation of the trinomial distribution,
    not from Tango's formula."""
    z = stats.norm.ppf((1 + LEVEL) / 2)

    def excess(d):
        low, high = max(0, -d), (1 - d) / 2  # of the share of lost rows
        part = lambda count, share: count / max(share, 1e-300) if count else 0.0  # noqa: E731
        slope = lambda q: part(lost, q) + part(won, q + d) - 2 * part(n - lost - won, 1 - d - 2 * q)  # noqa: E731
        inside = low + (high - low) * 1e-13, high - (high - low) * 1e-13
        if slope(inside[0]) <= 0:
            q = low
        elif slope(inside[1]) >= 0:
            q = high
        else:
            q = optimize.brentq(slope, *inside, xtol=1e-16, rtol=1e-14)
        return (won - lost - n * d) ** 2 - z * z * n * (2 * q + d - d * d)

    mean = (won - lost) / n
    end = lambda limit: limit if abs(mean - limit) < 1e-12 else optimize.brentq(excess, mean + limit * 1e-9, limit * (1 - 1e-13), xtol=1e-14)  # noqa: E731
    return end(-1), end(1)


def compare(case):
    a, b = np.array(case["baseline"], float), np.array(case["candidate"], float)
    d, n = b - a, len(a)
    names = case["cluster"] or list(range(n))
    groups = np.unique(names, return_inverse=True)[1]
    g = groups.max() + 1
    binary = set(a) | set(b) <= {0, 1}
    lost, won = int((d < 0).sum()), int((d > 0).sum())
    same = g == 1 or np.abs(d - d.mean()).max() < 1e-9
    if same:  # Clopper and Pearson's bound for 0 of g
        se, half = 0.0, stats.binomtest(0, int(g)).proportion_ci(LEVEL).high
    elif case["cluster"] is None:
        t = stats.ttest_1samp(d, 0)
        interval = t.confidence_interval(LEVEL)
        se, half = stats.sem(d), (interval.high - interval.low) / 2
    else:
        fit = OLS(d, np.ones(n)).fit(cov_type="cluster", cov_kwds={"groups": groups, "df_correction": True}, use_t=True)
        se = fit.bse[0]
        half = stats.t.ppf((1 + LEVEL) / 2, g - 1) * se
    low, high = max(-1, d.mean() - half), min(1, d.mean() + half)
    if binary and case["cluster"] is None:
        low, high = tango(lost, won, n)
        p = mcnemar([[0, lost], [won, 0]], exact=True).pvalue if lost + won else 1.0
        worse = stats.binomtest(lost, lost + won, alternative="greater").pvalue if lost + won else 1.0
    elif same:
        worse = stats.binomtest(int(g), int(g), alternative="greater").pvalue if d.mean() < 0 else 1.0
        p = 1.0 if d.mean() == 0 else stats.binomtest(int(g), int(g)).pvalue
    else:
        worse, p = stats.t.cdf(d.mean() / se, g - 1), 2 * stats.t.cdf(-abs(d.mean() / se), g - 1)
    sampled = not binary and not same and g >= 30
    if sampled:
        sums, sizes = np.bincount(groups, d), np.bincount(groups)
        got = stats.bootstrap((sums, sizes), lambda s, m, axis=-1: s.sum(axis) / m.sum(axis), paired=True, vectorized=True, n_resamples=200_000,
                              batch=20_000, confidence_level=LEVEL, method="percentile", rng=np.random.default_rng(1)).confidence_interval
        low, high = got.low, got.high
    return {**{k: case[k] for k in ("name", "baseline", "candidate", "cluster")}, "n": n, "clusters": int(g), "lost": lost, "won": won, "mean": d.mean(),
            "se": float(se), "low": float(low), "high": float(high), "p": float(p), "worse": float(worse), "sampled": bool(sampled)}


def adjusted(tests):
    """Step-down p-values from single-step ones: a test is compared with itself and those with smaller losses. The signs of rows are drawn
    by scipy, the same for all tests."""
    x = np.array(tests, float)
    x /= np.sqrt((x**2).sum(1, keepdims=True))
    p, lowest = np.ones(len(x)), 0.0
    order = np.argsort(x.sum(1), kind="stable")
    for rank, k in enumerate(order):
        one = stats.permutation_test((x[order[rank:]],), lambda v, axis: np.round((-v.sum(axis)).max(-1), 12), permutation_type="samples", alternative="greater",
                                     n_resamples=np.inf if x.shape[1] <= 13 else 40_000, batch=1000, vectorized=True, axis=-1, rng=np.random.default_rng(1))
        lowest = p[k] = max(lowest, float(one.pvalue))
    return p.tolist()


def draw(rng, rows, tests, share, loss):
    first = rng.choice([-1, 0, 1], rows, p=[share + loss, 1 - 2 * share - loss, share])
    own = rng.choice([-1, 0, 1], (tests, rows), p=[share, 1 - 2 * share, share])
    keep = rng.random((tests, rows)) < 0.7
    return np.where(keep, first, own).tolist()


def main():
    path = os.path.join(FOLDER, "reference.json")
    cases = [compare(c) for c in json.load(open(path))]
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    rng = np.random.default_rng(3)
    maxt = []
    for name, rows, tests, share, loss in (("12 rows, 2 metrics", 12, 2, 0.2, 0.3), ("13 rows, 4 metrics", 13, 4, 0.25, 0.2), ("200 rows, 2 metrics", 200, 2, 0.05, 0.09),
                                           ("200 rows, 6 metrics", 200, 6, 0.05, 0.08), ("60 rows, equally good", 60, 3, 0.1, 0)):
        d = draw(rng, rows, tests, share, loss)
        maxt.append({"name": name, "differences": d, "p": adjusted(d)})
    scores = np.round(rng.normal(-0.05, 0.2, (3, 40)) + rng.normal(0, 0.1, 40), 3).tolist()
    maxt.append({"name": "scores of 40 rows", "differences": scores, "p": adjusted(scores)})
    wilson = []
    for right, n in ((0, 9), (1, 300), (20, 20), (30, 40), (7, 1000)):
        low, high = proportion_confint(right, n, alpha=1 - LEVEL, method="wilson")
        wilson.append({"right": right, "n": n, "low": float(low), "high": float(high)})
    with open(os.path.join(FOLDER, "wilson.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in wilson) + "\n]\n")
    with open(os.path.join(FOLDER, "maxt.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in maxt) + "\n]\n")


main()
