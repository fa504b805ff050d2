"""Trains tiny-glm, tiny-llama and tiny-qwen35 on the synthetic corpus and writes GGUF files, references and figures.

Needs one CUDA GPU. See README.md in this folder.
"""

import argparse
import json
import multiprocessing
import pathlib
import time

import numpy as np
import torch

import corpus
import export_gguf
import family_glm
import family_llama
import family_qwen35
import optimise
import reference
import vocabulary

SHARDS = 28
FIRST_SHARD_SEED = 1000
TOKENIZER_DOCUMENTS = 60_000
REFERENCE_CASES = 14
ACCEPTANCE_QUESTIONS = 60
DEVICE = torch.device("cuda")


def main():
    args = _arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)

    tokenizer, sequences = build_data(args.documents, args.processes)
    tokenizer.save(str(args.out / "tokenizer.json"))
    questions = corpus.heldout(args.questions)
    with open(args.out / "heldout.jsonl", "w") as f:
        f.writelines(json.dumps(q) + "\n" for q in questions)

    figures = {}
    for name, family, seconds in [
        ("tiny-glm", family_glm, args.glm_seconds), ("tiny-llama", family_llama, args.llama_seconds), ("tiny-qwen35", family_qwen35, args.qwen35_seconds),
    ]:
        if seconds > 0:
            figures[name] = make(args.out, name, family, seconds, tokenizer, sequences, questions)
    _write_json(args.out / "figures.json", figures)


def build_data(documents, processes):
    """Returns the tokenizer and the packed training tokens, int16 [n, optimise.SEQUENCE]."""
    shards = [(FIRST_SHARD_SEED + i, documents // SHARDS) for i in range(SHARDS)]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        pairs = sum(pool.starmap(corpus.training_shard, shards), [])
    tokenizer = vocabulary.train_tokenizer(pairs[:TOKENIZER_DOCUMENTS])
    encodings = tokenizer.encode_batch([vocabulary.document_text(q, a) for q, a in pairs])
    tokens = np.concatenate([np.array(e.ids, np.int16) for e in encodings])
    rows = len(tokens) // optimise.SEQUENCE
    print(f"{len(pairs)} documents, {len(tokens)} tokens", flush=True)
    return tokenizer, torch.from_numpy(tokens[: rows * optimise.SEQUENCE].reshape(rows, optimise.SEQUENCE))


def make(out, name, family, seconds, tokenizer, sequences, questions):
    """Trains a model and writes its files and references. Returns its figures."""
    model, mtp = family.build(DEVICE)
    print(f"{name}: {_size(model)} parameters, MTP layer {_size(mtp) if mtp else 0}", flush=True)
    _train(model, mtp, sequences, seconds)
    figures = {"accuracy": reference.accuracy(model, tokenizer, questions)}
    if mtp:
        figures["acceptance"] = reference.acceptance(model, mtp, tokenizer, questions[:ACCEPTANCE_QUESTIONS])
    print(figures, flush=True)
    for kind in export_gguf.KINDS:
        family.write(out / f"{name}.{kind}.gguf", model, mtp, tokenizer, kind)
    cases = reference.cases(model, mtp, tokenizer, questions[:REFERENCE_CASES])
    _write_json(out / f"{name}.reference.json", {"llama": cases} if family is family_llama else cases)
    return figures


def _train(model, mtp, sequences, seconds):
    """Trains with fast matrix products (TF32). Then turns them off and rounds the matrices to float16, for the references."""
    _allow_tf32(True)
    optimise.train(model, mtp, sequences, seconds)
    _allow_tf32(False)
    for module in filter(None, (model, mtp)):
        module.eval()
        optimise.round_to_half(module)


def _allow_tf32(allowed):
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def _size(module):
    return sum(p.numel() for p in module.parameters())


def _write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for what is written")
    parser.add_argument("--documents", type=int, default=600_000, help="training documents")
    parser.add_argument("--glm-seconds", type=float, default=420, help="training time of tiny-glm; 0 does not make it")
    parser.add_argument("--llama-seconds", type=float, default=180, help="training time of tiny-llama; 0 does not make it")
    parser.add_argument("--qwen35-seconds", type=float, default=0, help="training time of tiny-qwen35; 0 does not make it")
    parser.add_argument("--questions", type=int, default=150, help="held-out questions to measure on")
    parser.add_argument("--seed", type=int, default=7, help="seed of the weights and of the order of the data")
    parser.add_argument("--processes", type=int, default=14, help="processes that make the corpus")
    return parser.parse_args()


if __name__ == "__main__":
    start = time.time()
    main()
    print(f"done in {time.time() - start:.0f} s")
