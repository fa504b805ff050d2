"""Trains tiny-glm and tiny-llama on the synthetic corpus and writes GGUF files, references and figures.

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

    figures = make_glm(args, tokenizer, sequences, questions) | make_llama(args, tokenizer, sequences, questions)
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


def make_glm(args, tokenizer, sequences, questions):
    model, mtp = family_glm.build(DEVICE)
    print(f"tiny-glm: {_size(model)} parameters, MTP layer {_size(mtp)}", flush=True)
    _train(model, mtp, sequences, args.glm_seconds)
    figures = {
        "glm_accuracy": reference.accuracy(model, tokenizer, questions),
        "glm_mtp_acceptance": reference.acceptance(model, mtp, tokenizer, questions[:ACCEPTANCE_QUESTIONS]),
    }
    print(figures, flush=True)
    for kind in export_gguf.KINDS:
        family_glm.write(args.out / f"tiny-glm.{kind}.gguf", model, mtp, tokenizer, kind)
    cases = reference.cases(model, mtp, tokenizer, questions[:REFERENCE_CASES])
    _write_json(args.out / "tiny-glm.reference.json", cases)
    return figures


def make_llama(args, tokenizer, sequences, questions):
    model, _ = family_llama.build(DEVICE)
    print(f"tiny-llama: {_size(model)} parameters", flush=True)
    _train(model, None, sequences, args.llama_seconds)
    figures = {"llama_accuracy": reference.accuracy(model, tokenizer, questions)}
    print(figures, flush=True)
    for kind in export_gguf.KINDS:
        family_llama.write(args.out / f"tiny-llama.{kind}.gguf", model, None, tokenizer, kind)
    cases = reference.cases(model, None, tokenizer, questions[:REFERENCE_CASES])
    _write_json(args.out / "tiny-llama.reference.json", {"llama": cases})
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
    parser.add_argument("--glm-seconds", type=float, default=420, help="training time of tiny-glm")
    parser.add_argument("--llama-seconds", type=float, default=180, help="training time of tiny-llama")
    parser.add_argument("--questions", type=int, default=150, help="held-out questions to measure on")
    parser.add_argument("--seed", type=int, default=7, help="seed of the weights and of the order of the data")
    parser.add_argument("--processes", type=int, default=14, help="processes that make the corpus")
    return parser.parse_args()


if __name__ == "__main__":
    start = time.time()
    main()
    print(f"done in {time.time() - start:.0f} s")
