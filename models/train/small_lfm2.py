"""A small LFM2: settings and tensors of its GGUF file. The model is transformers' own class."""

from transformers import Lfm2Config, Lfm2ForCausalLM

import smallmodel

NAME = ARCHITECTURE = "lfm2"


def build():
    return Lfm2ForCausalLM(Lfm2Config(
        vocab_size=smallmodel.VOCABULARY, hidden_size=64, intermediate_size=96, block_auto_adjust_ff_dim=False, num_hidden_layers=6,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, norm_eps=1e-5,
        layer_types=["conv", "conv", "full_attention", "conv", "full_attention", "conv"],
    ))


def randomise(name, weight):
    smallmodel.randomise(name, weight)
    if ".conv.conv." in name:
        smallmodel.normal(weight, 0.7)


def settings(w, c):
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv([c.num_key_value_heads if t == "full_attention" else 0 for t in c.layer_types])
    w.add_layer_norm_rms_eps(c.norm_eps)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_shortconv_l_cache(c.conv_L_cache)


def tensors(model):
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "token_embd_norm.weight", model.model.embedding_norm.weight
    for i, layer in enumerate(model.model.layers):
        block = f"blk.{i}."
        yield from mixer(block, layer)
        yield from mlp(block, layer.feed_forward)


def mixer(block, layer):
    yield block + "attn_norm.weight", layer.operator_norm.weight
    yield block + "ffn_norm.weight", layer.ffn_norm.weight
    if hasattr(layer, "conv"):
        yield block + "shortconv.in_proj.weight", layer.conv.in_proj.weight
        yield block + "shortconv.conv.weight", layer.conv.conv.weight.squeeze(1)
        yield block + "shortconv.out_proj.weight", layer.conv.out_proj.weight
        return
    attention = layer.self_attn
    yield block + "attn_q.weight", attention.q_proj.weight
    yield block + "attn_k.weight", attention.k_proj.weight
    yield block + "attn_v.weight", attention.v_proj.weight
    yield block + "attn_output.weight", attention.out_proj.weight
    yield block + "attn_q_norm.weight", attention.q_layernorm.weight
    yield block + "attn_k_norm.weight", attention.k_layernorm.weight


def mlp(block, network):
    yield block + "ffn_gate.weight", network.w1.weight
    yield block + "ffn_up.weight", network.w3.weight
    yield block + "ffn_down.weight", network.w2.weight
