"""Makes what the engine's tests compare Ingot with, by transformers in float32. A CPU is enough.

    python3 testmodels.py micro --tokenizer tokenizer.json --out out      the micro models and their references
    python3 testmodels.py references --tokenizer tokenizer.json --out out  references of the bundled, quantised models

The micro models have random weights; `micro` makes equivalent models, not those in the tree, whose seed was not recorded.
The references of the bundled models belong to the weights that the quantised files hold, dequantised to float32.
"""

import argparse
import json
import pathlib

import torch
from tokenizers import Tokenizer
from torch import nn

import architecture
import corpus
import export_gguf
import reference

MICRO_GLM = dict(
    hidden_size=64, intermediate_size=128, moe_intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
    num_key_value_heads=2, n_routed_experts=4, kv_lora_rank=32, q_lora_rank=32, qk_rope_head_dim=16,
    qk_nope_head_dim=32, v_head_dim=32, max_position_embeddings=1024,
)
MICRO_LLAMA = dict(
    hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=1024,
)
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
    model, mtp = architecture.build_glm("cpu", **MICRO_GLM)
    randomise(model, mtp)
    export_gguf.write_glm(out / "micro-glm.gguf", model, mtp, tokenizer, "f16", name="micro-glm")
    write(out / "micro-glm.json", [random_case(model, mtp, n) for n in PROMPTS])

    model = architecture.build_llama("cpu", **MICRO_LLAMA)
    randomise(model)
    export_gguf.write_llama(out / "micro-llama.gguf", model, tokenizer, "f16", name="micro-llama")
    write(out / "micro-llama.json", [random_case(model, None, n) for n in PROMPTS])


def randomise(*modules):
    """Draws weights at which every part matters: with transformers' own small ones all layers would be near the identity."""
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
    model, mtp = load_glm(MODELS / "tiny-glm.q8_0.gguf")
    write(out / "tiny-glm.json", reference.cases(model, mtp, tokenizer, questions))
    model = load_llama(MODELS / "tiny-llama.q4_0.gguf")
    write(out / "tiny-llama.json", reference.cases(model, None, tokenizer, questions))


@torch.no_grad()
def load_glm(path, **sizes):
    model, mtp = architecture.build_glm("cpu", **sizes)
    export_gguf.read_weights(path, export_gguf.glm_tensors(model, mtp))
    return model.eval(), mtp.eval()


@torch.no_grad()
def load_llama(path, **sizes):
    model = architecture.build_llama("cpu", **sizes)
    export_gguf.read_weights(path, export_gguf.llama_tensors(model))
    return model.eval()


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
