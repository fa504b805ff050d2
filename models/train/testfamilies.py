"""Makes the reference models of families that engine/model/testdata/families holds: for each family a small model with random
weights as a GGUF file in F32, and what transformers computes for it in float32. A CPU is enough.

    python3 testfamilies.py --out ../../engine/model/testdata/families [FAMILY...]
"""

import argparse
import importlib
import json
import pathlib
import subprocess
import tempfile

import gguf
import numpy as np
import torch

FAMILIES = {
    m.NAME: m for m in (importlib.import_module(p.stem) for p in sorted(pathlib.Path(__file__).parent.glob("small_*.py")))
}
# Lengths of prompts and of their answers. The shortest come first, since some tests take only them. The others are around the
# edges of chunks of 64 positions, and long ones.
PROMPTS = [(n, 24) for n in (1, 2, 5, 9, 14, 21, 30, 41, 52, 60)] + [(n, 6) for n in (63, 64, 65, 127, 128, 129, 300, 700)]


@torch.no_grad()
def make(family, out, seed):
    for attempt in range(seed, seed + 100):
        torch.manual_seed(attempt)
        model = family.build().eval()
        for name, weight in [*model.named_parameters(), *model.named_buffers()]:
            family.randomise(name, weight)
        prompts = [case(model, length, answer) for length, answer in PROMPTS]
        tokens = {t for p in prompts for t in p["tokens"]}
        gap = min(p["min_gap"] for p in prompts)
        print(f"{family.NAME}: seed {attempt}, {len(tokens)} different tokens, smallest gap {gap}")
        if len(tokens) > 80:
            break
    file = f"{family.NAME}.f32.gguf"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write(family, model, folder / file)
        (folder / f"{family.NAME}.json").write_text(json.dumps({"files": [file], "seed": attempt, "prompts": prompts}) + "\n")
        subprocess.run(
            ["tar", "-C", folder, "--owner=0", "--group=0", "--mtime=2026-01-01", "-cJf", out / f"{family.NAME}.tar.xz", file, f"{family.NAME}.json"],
            check=True, env={"XZ_OPT": "-9e", "PATH": "/usr/bin:/bin"},
        )


def case(model, length, answer):
    ids = torch.randint(model.config.get_text_config().vocab_size, (length,)).tolist()
    tokens = []
    for _ in range(answer):
        tokens.append(int(model(input_ids=torch.tensor([ids + tokens]), use_cache=False).logits[0, -1].argmax()))
    logits = model(input_ids=torch.tensor([ids + tokens]), use_cache=False).logits[0, len(ids) - 1 : -1].float()
    best = logits.topk(5)
    return {
        "ids": ids,
        "tokens": tokens,
        "min_gap": round(float((best.values[:, 0] - best.values[:, 1]).min()), 5),
        "top5_ids": best.indices.tolist(),
        "top5_logits": [[round(float(v), 5) for v in row] for row in best.values],
        "logsumexp": [round(float(v), 5) for v in logits.logsumexp(-1)],
    }


def write(family, model, path):
    w = gguf.GGUFWriter(path, family.ARCHITECTURE)
    config = model.config.get_text_config()
    w.add_name(f"small {family.NAME}")
    w.add_context_length(config.max_position_embeddings)
    w.add_vocab_size(config.vocab_size)
    w.add_embedding_length(config.hidden_size)
    family.settings(w, config)
    w.add_file_type(0)
    # The texts of the tokens do not matter: prompts are given as ids.
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list(["a", "b", "ab", *(f"t{i}" for i in range(3, config.vocab_size))])
    w.add_token_types([gguf.TokenType.NORMAL] * config.vocab_size)
    w.add_token_merges(["a b"])
    w.add_eos_token_id(config.vocab_size - 1)
    w.add_add_bos_token(False)
    for name, tensor in family.tensors(model):
        w.add_tensor(name, np.ascontiguousarray(tensor.detach().float().numpy()))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="*", default=sorted(FAMILIES))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.family:
        make(FAMILIES[name], args.out.resolve(), args.seed)


if __name__ == "__main__":
    main()
