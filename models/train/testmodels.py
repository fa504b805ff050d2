"""Makes the models and reference outputs with which the engine's tests compare Ingot. transformers computes the outputs in
float32. A CPU is enough.

    python3 testmodels.py micro --tokenizer tokenizer.json --out out      the micro models and their references
    python3 testmodels.py references --tokenizer tokenizer.json --out out  references of the bundled, quantised models

The micro models have random weights; `micro` makes equivalent models, not those in the tree, whose seed was not recorded.
The references of the bundled models belong to the weights that the quantised files hold, dequantised to float32.
"""

import argparse
import importlib
import json
import pathlib

import torch
from tokenizers import Tokenizer
from torch import nn

import corpus
import export_gguf
import reference

FAMILIES = [importlib.import_module(p.stem) for p in sorted(pathlib.Path(__file__).parent.glob("family_*.py"))]
BUNDLED = {"glm": "tiny-glm.q8_0.gguf", "llama": "tiny-llama.q4_0.gguf"}
PROMPTS = [1, 2, 3, 5, 8, 17, 31, 32, 33, 48]  # lengths around those of pages and tiles
ANSWER = 24
QUESTIONS = 14
MODELS = pathlib.Path(__file__).parent.parent


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    (micro if args.what == "micro" else references)(tokenizer, args.out)


@torch.no_grad()
def micro(tokenizer, out):
    for family in FAMILIES:
        model, mtp = family.build("cpu", **family.MICRO)
        randomise(*filter(None, (model, mtp)))
        family.write(out / f"micro-{family.NAME}.gguf", model, mtp, tokenizer, "f16", name=f"micro-{family.NAME}")
        write(out / f"micro-{family.NAME}.json", [random_case(model, mtp, n) for n in PROMPTS])


def randomise(*modules):
    """Draws weights so large that every part affects the result. With transformers' small initial weights, layers are almost the
    identity."""
    for module in modules:
        module.eval()
        for name, weight in [*module.named_parameters(), *module.named_buffers()]:
            if name.endswith("e_score_correction_bias"):
                weight.normal_(0, 0.5)
            elif name.endswith("embed_tokens.weight"):
                weight.normal_(0, 1).copy_(weight.half())
            elif weight.ndim == 1 and isinstance(weight, nn.Parameter):
                weight.normal_(1, 0.2)
            elif weight.ndim > 1:
                weight.normal_(0, 1.4 / weight.shape[-1] ** 0.5)
                if not name.endswith("gate.weight"):
                    weight.copy_(weight.half())


def random_case(model, mtp, length):
    ids = torch.randint(model.config.vocab_size, (length,)).tolist()
    return reference.token_case(model, mtp, ids, ANSWER, stop=())


@torch.no_grad()
def references(tokenizer, out):
    questions = corpus.heldout(150)[:QUESTIONS]
    for family in FAMILIES:
        if family.NAME in BUNDLED:
            model, mtp = load(family, MODELS / BUNDLED[family.NAME])
            write(out / f"tiny-{family.NAME}.json", reference.cases(model, mtp, tokenizer, questions))


@torch.no_grad()
def load(family, path, **sizes):
    """Returns a family's (model, MTP layer or None) with the weights of a GGUF file."""
    model, mtp = family.build("cpu", **sizes)
    export_gguf.read_weights(path, family.tensors(model, mtp))
    return model.eval(), mtp and mtp.eval()


def write(path, value):
    path.write_text(json.dumps(value) + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["micro", "references"])
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
