"""Metrics of the package evaluate whose programs are on a hub, as tasks of the harness use them: code_eval and rouge."""
import collections
import multiprocessing
import os
import tempfile

import numpy
from rouge_score import rouge_scorer, scoring


def execute(program, connection):
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            exec(program, {})
            connection.send("passed")
        except BaseException as e:
            connection.send(f"failed: {e}")


class CodeEval:
    def compute(self, references, predictions, k=(1, 10, 100), num_workers=4, timeout=3.0):
        results = collections.defaultdict(list)
        for i, (candidates, test) in enumerate(zip(predictions, references)):
            for n, candidate in enumerate(candidates):
                connection, other = multiprocessing.Pipe()
                process = multiprocessing.get_context("fork").Process(target=execute, args=(candidate + "\n" + test, other), daemon=False)
                process.start()
                other.close()
                try:
                    result = connection.recv() if connection.poll(timeout) else "timed out"
                except EOFError:
                    result = "failed"
                process.kill()
                process.join()
                results[i].append((n, {"task_id": i, "passed": result == "passed", "result": result, "completion_id": n}))
        total = numpy.array([len(r) for r in results.values()])
        correct = numpy.array([sum(p["passed"] for _, p in r) for r in results.values()])
        return {f"pass@{n}": estimate(total, correct, n).mean() for n in k if (total >= n).all()}, results


def estimate(total, correct, k):
    def one(n, c):
        return 1.0 if n - c < k else 1.0 - numpy.prod(1.0 - k / numpy.arange(n - c + 1, n + 1))
    return numpy.array([one(int(n), int(c)) for n, c in zip(total, correct)])


class Rouge:
    def compute(self, predictions, references, rouge_types=None, use_aggregator=True, use_stemmer=False, tokenizer=None):
        types = rouge_types or ["rouge1", "rouge2", "rougeL", "rougeLsum"]
        scorer = rouge_scorer.RougeScorer(rouge_types=types, use_stemmer=use_stemmer, tokenizer=tokenizer)
        scores = [scorer.score_multi(r, p) if isinstance(r, list) else scorer.score(r, p) for r, p in zip(references, predictions)]
        if not use_aggregator:
            return {t: [s[t].fmeasure for s in scores] for t in types}
        aggregator = scoring.BootstrapAggregator()
        for s in scores:
            aggregator.add_scores(s)
        return {t: s.mid.fmeasure for t, s in aggregator.aggregate().items()}


class Missing:
    def compute(self, *args, **kwargs):
        raise ImportError("the metric is on a hub")


def load(name, *args, **kwargs):
    return {"code_eval": CodeEval, "rouge": Rouge}.get(name, Missing)()
