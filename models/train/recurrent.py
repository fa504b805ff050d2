"""Reference models of families with recurrent layers: small random models, their GGUF files, and the results of transformers.

    python recurrent.py TOKENIZER.gguf OUTPUT_FOLDER

copies the tokenizer of the first file, and writes FAMILY.f32.gguf and FAMILY.json for each family. Weights are multiples of
1/32, so that the files compress well. What the GGUF files have differently from transformers' models is written as llama.cpp's
converter writes it: norms have 1 added, and the heads of values are in another order.
"""

import json
import sys

import gguf
import numpy as np
import torch
from torch import nn
from transformers import Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, Qwen3_5TextConfig, Qwen3NextConfig, Qwen3NextForCausalLM
from transformers.models.qwen3_5 import modeling_qwen3_5 as dense
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as moe

STEP = 32  # weights are multiples of 1/STEP
LENGTHS = [1, 2, 3, 17, 63, 64, 65, 127, 128, 129, 192, 300, 700]  # tokens of the prompts
ANSWER = 12

SIZES = dict(
    hidden_size=64, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=16, linear_value_head_dim=16,
    max_position_embeddings=1024, rms_norm_eps=1e-6, tie_word_embeddings=True, attn_implementation="eager",
    rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1]},
)
EXPERTS = dict(moe_intermediate_size=32, shared_expert_intermediate_size=48, num_experts=6, num_experts_per_tok=2)


class MTP(nn.Module):
    """The multi-token-prediction layer, which transformers does not run: a layer with attention on the joined inputs."""

    def __init__(self, config, layer, norm):
        super().__init__()
        hidden = config.hidden_size
        self.enorm, self.hnorm = norm(hidden, config.rms_norm_eps), norm(hidden, config.rms_norm_eps)
        self.eh_proj = nn.Linear(2 * hidden, hidden, bias=False)
        self.layer = layer(config, config.layer_types.index("full_attention"))
        self.head_norm = norm(hidden, config.rms_norm_eps)


def randomise(*modules):
    torch.manual_seed(7)
    for module in modules:
        for name, p in module.named_parameters():
            if name.endswith("A_log"):
                p.copy_(torch.log(torch.rand_like(p) * 4 + 0.02))
                continue
            spread = 0.15 if p.dim() < 2 else 0.8 / p.shape[-1] ** 0.5
            if "embed" in name:
                spread = 0.4
            if "conv1d" in name:
                spread = 0.5
            values = torch.randn_like(p) * spread
            if name.endswith("linear_attn.norm.weight") or "dt_bias" in name:
                values += 1  # this norm has no 1 added
            p.copy_((values * STEP).round() / STEP)


def tiled(t, config, dim=1, axis=0):
    """Reorders the heads of values, each of dim rows: from those of one key head side by side to one of each key head."""
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    t = t.transpose(0, axis)
    t = t.reshape(keys, values // keys, dim, *t.shape[1:]).transpose(0, 1).reshape(t.shape)
    return t.transpose(0, axis)


def recurrent(block, layer, config):
    keys, dim = config.linear_num_key_heads * config.linear_key_head_dim, config.linear_value_head_dim
    q, k, v = layer.in_proj_qkv.weight.split([keys, keys, layer.value_dim])
    yield block + "attn_qkv.weight", torch.cat([q, k, tiled(v, config, dim)])
    yield block + "attn_gate.weight", tiled(layer.in_proj_z.weight, config, dim)
    q, k, v = layer.conv1d.weight.squeeze(1).split([keys, keys, layer.value_dim])
    yield block + "ssm_conv1d.weight", torch.cat([q, k, tiled(v, config, dim)])
    yield block + "ssm_dt.bias", tiled(layer.dt_bias, config)
    yield block + "ssm_a", -tiled(layer.A_log, config).exp()
    yield block + "ssm_beta.weight", tiled(layer.in_proj_b.weight, config)
    yield block + "ssm_alpha.weight", tiled(layer.in_proj_a.weight, config)
    yield block + "ssm_norm.weight", layer.norm.weight
    yield block + "ssm_out.weight", tiled(layer.out_proj.weight, config, dim, 1)


def grouped(block, layer, config):
    """The tensors of qwen3next: heads of values stay in their order, and queries to z are taken from each key head's rows."""
    keys, dim, values = config.linear_num_key_heads, config.linear_key_head_dim, layer.value_dim // config.linear_num_key_heads
    rows = layer.in_proj_qkvz.weight.view(keys, -1, config.hidden_size).split([dim, dim, values, values], 1)
    q, k, v, z = (r.reshape(-1, config.hidden_size) for r in rows)
    yield block + "attn_qkv.weight", torch.cat([q, k, v])
    yield block + "attn_gate.weight", z
    yield block + "ssm_conv1d.weight", layer.conv1d.weight.squeeze(1)
    yield block + "ssm_dt.bias", layer.dt_bias
    yield block + "ssm_a", -layer.A_log.exp()
    yield block + "ssm_ba.weight", layer.in_proj_ba.weight
    yield block + "ssm_norm.weight", layer.norm.weight
    yield block + "ssm_out.weight", layer.out_proj.weight


def attention(block, layer):
    yield block + "attn_q.weight", layer.q_proj.weight
    yield block + "attn_k.weight", layer.k_proj.weight
    yield block + "attn_v.weight", layer.v_proj.weight
    yield block + "attn_output.weight", layer.o_proj.weight
    yield block + "attn_q_norm.weight", layer.q_norm.weight + 1
    yield block + "attn_k_norm.weight", layer.k_norm.weight + 1


def network(block, mlp):
    if not hasattr(mlp, "experts"):
        for part in "gate", "up", "down":
            yield f"{block}ffn_{part}.weight", getattr(mlp, part + "_proj").weight
        return
    gate, up = mlp.experts.gate_up_proj.chunk(2, 1)
    yield block + "ffn_gate_inp.weight", mlp.gate.weight
    yield block + "ffn_gate_exps.weight", gate
    yield block + "ffn_up_exps.weight", up
    yield block + "ffn_down_exps.weight", mlp.experts.down_proj
    yield block + "ffn_gate_inp_shexp.weight", mlp.shared_expert_gate.weight.squeeze(0)
    for part in "gate", "up", "down":
        yield f"{block}ffn_{part}_shexp.weight", getattr(mlp.shared_expert, part + "_proj").weight


def tensors(model, mtp):
    config = model.config
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight + 1
    for i, layer in enumerate([*model.model.layers, *([mtp.layer] if mtp else [])]):
        block = f"blk.{i}."
        yield block + "attn_norm.weight", layer.input_layernorm.weight + 1
        yield block + "post_attention_norm.weight", layer.post_attention_layernorm.weight + 1
        if hasattr(layer, "self_attn"):
            yield from attention(block, layer.self_attn)
        elif hasattr(layer.linear_attn, "in_proj_ba"):
            yield from grouped(block, layer.linear_attn, config)
        else:
            yield from recurrent(block, layer.linear_attn, config)
        yield from network(block, layer.mlp)
    if not mtp:
        return
    block = f"blk.{config.num_hidden_layers}.nextn."
    yield block + "eh_proj.weight", mtp.eh_proj.weight
    yield block + "enorm.weight", mtp.enorm.weight + 1
    yield block + "hnorm.weight", mtp.hnorm.weight + 1
    yield block + "shared_head_norm.weight", mtp.head_norm.weight + 1


def add_settings(w, arch, c, mtp):
    """Writes the sizes of a model with the configuration c, and with an MTP layer or None."""
    w.add_block_count(c.num_hidden_layers + bool(mtp))
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_rope_dimension_count(int(c.head_dim * c.rope_parameters["partial_rotary_factor"]))
    if mtp:
        w.add_array(f"{arch}.rope.dimension_sections", [*c.rope_parameters["mrope_section"], 0])
        w.add_uint32(f"{arch}.nextn_predict_layers", 1)
    w.add_uint32(f"{arch}.full_attention_interval", 4)
    w.add_uint32(f"{arch}.ssm.conv_kernel", c.linear_conv_kernel_dim)
    w.add_uint32(f"{arch}.ssm.state_size", c.linear_key_head_dim)
    w.add_uint32(f"{arch}.ssm.group_count", c.linear_num_key_heads)
    w.add_uint32(f"{arch}.ssm.time_step_rank", c.linear_num_value_heads)
    w.add_uint32(f"{arch}.ssm.inner_size", c.linear_num_value_heads * c.linear_value_head_dim)
    if arch == "qwen35":
        w.add_feed_forward_length(c.intermediate_size)
    else:
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
        w.add_uint32(f"{arch}.expert_shared_feed_forward_length", c.shared_expert_intermediate_size)


def write(path, arch, model, mtp, tokenizer):
    w = gguf.GGUFWriter(path, arch)
    w.add_name("random " + arch)
    add_settings(w, arch, model.config, mtp)
    for field in tokenizer.fields.values():
        if field.name.startswith("tokenizer."):
            kind = field.types[0]
            if kind == gguf.GGUFValueType.ARRAY:
                w.add_array(field.name, field.contents())
            else:
                w.add_key_value(field.name, field.contents(), kind)
    for name, tensor in tensors(model, mtp):
        w.add_tensor(name, np.ascontiguousarray(tensor.float().numpy()))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def rounded(values):
    return [round(float(v), 5) for v in values]


def reference(model, ids):
    """The greedy answer to a prompt, with the highest logits of each step."""
    case = {"ids": ids, "tokens": [], "top5_ids": [], "top5_logits": [], "logsumexp": []}
    cache, x = None, torch.tensor([ids])
    for _ in range(ANSWER):
        result = model(input_ids=x, past_key_values=cache, use_cache=True)
        cache, logits = result.past_key_values, result.logits[0, -1]
        best = logits.topk(5)
        case["top5_ids"].append(best.indices.tolist())
        case["top5_logits"].append(rounded(best.values))
        case["logsumexp"].append(round(float(logits.logsumexp(0)), 5))
        case["tokens"].append(int(best.indices[0]))
        x = best.indices[:1].view(1, 1)
    return case


def drafts(model, mtp, ids):
    """The MTP layer's highest logits at all positions but the last: from a token's state and the next token's embedding."""
    x = torch.tensor([ids])
    hidden = model.model(input_ids=x, use_cache=False).last_hidden_state  # after the last norm
    embedded = model.model.embed_tokens(x[:, 1:])
    joined = mtp.eh_proj(torch.cat([mtp.enorm(embedded), mtp.hnorm(hidden[:, :-1])], -1))
    n = joined.shape[1]
    mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
    positions = torch.arange(n)[None].expand(3, 1, n)
    rope = model.model.rotary_emb(joined, positions)
    out = mtp.layer(joined, position_embeddings=rope, attention_mask=mask)
    out = out[0] if isinstance(out, tuple) else out
    best = model.lm_head(mtp.head_norm(out))[0].topk(2)
    return {"top2_ids": best.indices.tolist(), "top2_logits": [rounded(v) for v in best.values]}


@torch.no_grad()
def main(tokenizer, folder):
    tokenizer = gguf.GGUFReader(tokenizer)
    vocab = len(tokenizer.fields["tokenizer.ggml.tokens"].contents())
    for arch, config, build, layer, norm in [
        ("qwen35", Qwen3_5TextConfig(vocab_size=vocab, intermediate_size=96, **SIZES), Qwen3_5ForCausalLM,
         dense.Qwen3_5DecoderLayer, dense.Qwen3_5RMSNorm),
        ("qwen35moe", Qwen3_5MoeTextConfig(vocab_size=vocab, **SIZES, **EXPERTS), Qwen3_5MoeForCausalLM,
         moe.Qwen3_5MoeDecoderLayer, moe.Qwen3_5MoeRMSNorm),
        ("qwen3next", Qwen3NextConfig(vocab_size=vocab, **SIZES, **EXPERTS), Qwen3NextForCausalLM, None, None),  # files have no MTP layer
    ]:
        model, mtp = build(config).eval(), layer and MTP(config, layer, norm).eval()
        randomise(model, *([mtp] if mtp else []))
        write(f"{folder}/{arch}.f32.gguf", arch, model, mtp, tokenizer)
        random = np.random.default_rng(3)
        prompts = [reference(model, random.integers(0, vocab, n).tolist()) for n in LENGTHS]
        chosen = LENGTHS.index(127)
        with open(f"{folder}/{arch}.json", "w") as f:
            results = {"files": [f"{arch}.f32.gguf"], "prompts": prompts}
            if mtp:
                results["mtp"] = {"prompt": chosen, **drafts(model, mtp, prompts[chosen]["ids"] + prompts[chosen]["tokens"])}
            json.dump(results, f)
        gaps = [l[0] - l[1] for p in prompts for l in p["top5_logits"]]
        print(arch, "tokens", len({t for p in prompts for t in p["tokens"]}), "gaps below 0.02:", sum(g < 0.02 for g in gaps), "of", len(gaps))


if __name__ == "__main__":
    main(*sys.argv[1:])
