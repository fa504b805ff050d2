"""Makes the reference models of Gemma 4: small models with random weights, and what transformers computes for them in float32.

    python3 reference_gemma4.py OUT

For each layout, this writes gemma4*.f32.gguf and gemma4*.json to the folder OUT, and for some a drafter. The JSON files have the
fields of Family in engine/model/modeltest/families.go. Weights are multiples of a power of two, so that the files can be compressed.
"""

import argparse
import json
import math
import pathlib

import gguf
import numpy as np
import torch
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4ForCausalLM, Gemma4TextConfig

LENGTHS = [5, 1, 40, 63, 64, 65, 127, 128, 129, 700]  # tokens of the prompts; windows have 16 positions
ANSWER = 8  # tokens of an answer
DRAFTS = 3  # drafts in a row
DRAFTED = 2  # index of the prompt for which is drafted
SHARED = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 8,
    "head_dim": 16,
    "global_head_dim": 32,
    "sliding_window": 16,
    "rms_norm_eps": 1e-6,
    "final_logit_softcapping": 4.0,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 512,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
    },
    "pad_token_id": 0,
}
SLIDING, FULL = "sliding_attention", "full_attention"
LAYOUTS = {
    # like 31B and 12B: values are keys in the layers without a window
    "gemma4": {
        "layer_types": [SLIDING, SLIDING, FULL] * 2,
        "num_key_value_heads": 4,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
    },
    # like 26B-A4B: experts beside the dense network
    "gemma4-moe": {
        "layer_types": [SLIDING, SLIDING, FULL],
        "num_key_value_heads": 4,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "enable_moe_block": True,
        "num_experts": 8,
        "top_k_experts": 3,
        "moe_intermediate_size": 16,
    },
    # like E2B: inputs per layer, and layers that read the keys and values of others
    "gemma4-e": {
        "layer_types": [SLIDING, SLIDING, FULL, SLIDING, FULL, SLIDING, FULL, SLIDING, FULL],
        "num_key_value_heads": 1,
        "num_kv_shared_layers": 4,
        "use_double_wide_mlp": True,
        "hidden_size_per_layer_input": 16,
    },
}

BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_feedforward_layernorm": "post_ffw_norm",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "router.proj": "ffn_gate_inp",
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
}
# parameters whose names do not end in .weight
NAMED = {
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight",
    "layer_scalar": "layer_output_scale.weight",
}
GLOBAL = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "model.per_layer_model_projection.weight": "per_layer_model_proj.weight",
    "model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
}


ASSISTANT = {
    "pre_projection.weight": "nextn.pre_projection.weight",
    "post_projection.weight": "nextn.post_projection.weight",
}


def tensor_name(name):
    """The name in GGUF of a parameter in transformers; None if the file does not have it."""
    if name in ASSISTANT:
        return ASSISTANT[name]
    if name in GLOBAL:
        return GLOBAL[name]
    if name == "lm_head.weight":
        return None
    _, _, layer, rest = name.split(".", 3)
    if rest in NAMED:
        return f"blk.{layer}.{NAMED[rest]}"
    return f"blk.{layer}.{BLOCK[rest.removesuffix('.weight')]}.weight"


def add_tokenizer(w):
    """A vocabulary like Gemma 4's: control tokens, bytes, and the characters of ASCII."""
    control = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"]
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    texts = ["▁", "\n", "ab"] + [chr(c) for c in range(ord("!"), ord("~") + 1)]
    unused = [f"<unused{i}>" for i in range(SHARED["vocab_size"] - len(control + bytes_ + texts))]
    kinds = [gguf.TokenType.CONTROL] * len(control) + [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * (len(texts) + len(unused))
    w.add_tokenizer_model("gemma4")
    w.add_token_list(control + bytes_ + texts + unused)
    w.add_token_types(kinds)
    w.add_token_merges(["a b"])
    w.add_eos_token_id(1)
    w.add_bos_token_id(2)
    w.add_unk_token_id(3)
    w.add_eot_token_id(5)
    w.add_add_bos_token(True)


def draw(model):
    """Fills a model with random weights: matrices of about unit gain, norms and factors around 1."""
    state = model.state_dict()
    for name, p in state.items():
        if p.ndim == 1:
            step, mean, spread = 2.0**-5, 1.0, 0.25
        else:
            spread = p.shape[-1] ** -0.5 * (1.5 if "embed" not in name else 1.0)
            step, mean = 2.0 ** round(math.log2(spread / 3)), 0.0
        values = mean + spread * torch.randn(p.shape, dtype=torch.float64)
        if name.endswith("layer_scalar"):
            values = 0.6 + 0.8 * torch.rand(p.shape, dtype=torch.float64)
        p.copy_((values / step).round() * step)


def write(path, model, config, target=None):
    """Writes a model or, for a target, its drafter."""
    arch = "gemma4-assistant" if target else "gemma4"
    w = gguf.GGUFWriter(path, arch)
    c = config
    sliding = [t == SLIDING for t in c.layer_types]
    w.add_context_length(c.max_position_embeddings)
    w.add_block_count(c.num_hidden_layers)
    w.add_embedding_length(c.hidden_size)
    w.add_head_count(c.num_attention_heads)
    full = model.model.layers[sliding.index(False)].self_attn
    local = model.model.layers[0].self_attn
    heads = [c.num_attention_heads // (local if s else full).num_key_value_groups for s in sliding]
    w.add_head_count_kv(heads if len(set(heads)) > 1 else heads[0])
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_key_length(full.head_dim)
    w.add_value_length(full.head_dim)
    w.add_uint32(f"{arch}.attention.key_length_swa", local.head_dim)
    w.add_uint32(f"{arch}.attention.value_length_swa", local.head_dim)
    w.add_rope_dimension_count(full.head_dim)
    w.add_uint32(f"{arch}.rope.dimension_count_swa", local.head_dim)
    w.add_rope_freq_base(c.rope_parameters[FULL]["rope_theta"])
    w.add_float32(f"{arch}.rope.freq_base_swa", c.rope_parameters[SLIDING]["rope_theta"])
    w.add_sliding_window(c.sliding_window)
    w.add_array(f"{arch}.attention.sliding_window_pattern", sliding)
    w.add_uint32(f"{arch}.attention.shared_kv_layers", c.num_kv_shared_layers)
    w.add_uint32(f"{arch}.embedding_length_per_layer_input", c.hidden_size_per_layer_input)
    if target:
        w.add_uint32(f"{arch}.embedding_length_out", target.hidden_size)
        w.add_uint32(f"{arch}.nextn_predict_layers", c.num_hidden_layers)
    else:
        w.add_final_logit_softcapping(c.final_logit_softcapping)
    ffn = [layer.mlp.intermediate_size for layer in model.model.layers]
    w.add_feed_forward_length(ffn if len(set(ffn)) > 1 else ffn[0])
    if c.enable_moe_block:
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.top_k_experts)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
    add_tokenizer(w)
    turning = full.head_dim // 8
    w.add_tensor("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (full.head_dim // 2 - turning), dtype=np.float32))
    for name, p in model.state_dict().items():
        if (to := tensor_name(name)) is not None:
            w.add_tensor(to, p.float().numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


@torch.no_grad()
def prompt(model, ids):
    """The greedy answer of a prompt, with the five highest logits before each token."""
    tokens, top, values, sums = [], [], [], []
    for _ in range(ANSWER):
        logits = model(input_ids=torch.tensor([ids + tokens]), use_cache=False).logits[0, -1].double()
        best = logits.topk(5)
        top.append(best.indices.tolist())
        values.append([round(v, 6) for v in best.values.tolist()])
        sums.append(round(float(logits.logsumexp(-1)), 6))
        tokens.append(top[-1][0])
    return {"ids": ids, "tokens": tokens, "top5_ids": top, "top5_logits": values, "logsumexp": sums}


def assistant(config):
    """A drafter for a model."""
    target = config.per_layer_config
    layers = [config.layer_types.index(SLIDING), config.layer_types.index(FULL)]
    text = Gemma4TextConfig(**{
        **SHARED,
        "layer_types": [SLIDING, SLIDING, FULL],
        "num_hidden_layers": 3,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_key_value_heads": target[layers[0]].num_key_value_heads,
        "num_global_key_value_heads": target[layers[1]].num_key_value_heads,
        "num_kv_shared_layers": 3,
        "attention_k_eq_v": True,
        "vocab_size_per_layer_input": 0,
        "final_logit_softcapping": None,
    })
    text._attn_implementation = "eager"
    return Gemma4AssistantConfig(text_config=text, backbone_hidden_size=config.hidden_size, tie_word_embeddings=True)


@torch.no_grad()
def drafts(model, drafter, tokens):
    """For each token but the first, as the last known one: the two highest logits of DRAFTS drafts in a row.

    As in transformers' SinglePositionMultiTokenCandidateGenerator, all drafts have the position of the last known token, and attend to
    the tokens before it. Layers with a window get the keys that a cache holds for this position.
    """
    window = SHARED["sliding_window"] - 1
    out = model(
        input_ids=torch.tensor([tokens]), use_cache=False, output_hidden_states=True, return_shared_kv_states=True
    )
    states, shared = out.hidden_states[-1], out.shared_kv_states
    rows = []
    for last in range(1, len(tokens)):
        first = {FULL: 0, SLIDING: max(last - window, 0)}
        known = {k: (v[0][:, :, first[k] : last], v[1][:, :, first[k] : last]) for k, v in shared.items()}
        token, state, row = tokens[last], states[:, last - 1 : last], []
        for _ in range(DRAFTS):
            embedded = model.model.embed_tokens(torch.tensor([[token]]))
            step = drafter(
                inputs_embeds=torch.cat([embedded, state], -1), position_ids=torch.tensor([[last]]), shared_kv_states=known, use_cache=False
            )
            best = step.logits[0, -1].double().topk(2)
            row.append([best.indices.tolist(), [round(v, 6) for v in best.values.tolist()]])
            token, state = row[-1][0][0], step.last_hidden_state
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for seed, (name, layout) in enumerate(LAYOUTS.items()):
        torch.manual_seed(seed)
        config = Gemma4TextConfig(**{**SHARED, **layout, "num_hidden_layers": len(layout["layer_types"])})
        config._attn_implementation = "eager"
        model = Gemma4ForCausalLM(config).float().eval()
        with torch.no_grad():
            draw(model)
        write(out / f"{name}.f32.gguf", model, config)
        prompts = [prompt(model, torch.randint(1, SHARED["vocab_size"], (n,)).tolist()) for n in LENGTHS]
        family = {"files": [f"{name}.f32.gguf"], "prompts": prompts}
        if name != "gemma4-moe":
            drafter_config = assistant(config)
            drafter = Gemma4AssistantForCausalLM(drafter_config).float().eval()
            with torch.no_grad():
                draw(drafter)
            write(out / f"{name}-assistant.f32.gguf", drafter, drafter_config.text_config, config)
            text = prompts[DRAFTED]["ids"] + prompts[DRAFTED]["tokens"]
            family["assistant"] = {"file": f"{name}-assistant.f32.gguf", "prompt": DRAFTED, "drafts": drafts(model, drafter, text)}
        (out / f"{name}.json").write_text(json.dumps(family))
        gaps = [v[0] - v[1] for p in prompts for v in p["top5_logits"]]
        print(name, sum(p.numel() for p in model.parameters()), "smallest gap", min(gaps))


if __name__ == "__main__":
    main()
