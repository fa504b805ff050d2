"""A small LFM2 with experts: settings and tensors of its GGUF file. The model is transformers' own class.

A row of its convolutions is longer than a key and a value together.
"""

import gguf
from transformers import Lfm2MoeConfig, Lfm2MoeForCausalLM

import small_lfm2
import smallmodel

NAME = ARCHITECTURE = "lfm2moe"


def build():
    return Lfm2MoeForCausalLM(Lfm2MoeConfig(
        vocab_size=smallmodel.VOCABULARY, hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=5,
        num_attention_heads=4, num_key_value_heads=1, max_position_embeddings=1024, norm_eps=1e-5, num_experts=6, num_experts_per_tok=2,
        num_dense_layers=2, layer_types=["conv", "full_attention", "conv", "conv", "full_attention"],
    ))


def randomise(name, weight):
    small_lfm2.randomise(name, weight)
    if name.endswith("expert_bias"):
        weight.normal_(0, 0.2)


def settings(w, c):
    small_lfm2.settings(w, c)
    w.add_expert_count(c.num_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)
    w.add_leading_dense_block_count(c.num_dense_layers)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def tensors(model):
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "token_embd_norm.weight", model.model.embedding_norm.weight
    for i, layer in enumerate(model.model.layers):
        block, network = f"blk.{i}.", layer.feed_forward
        yield from small_lfm2.mixer(block, layer)
        if not hasattr(network, "experts"):
            yield from small_lfm2.mlp(block, network)
            continue
        gate, up = network.experts.gate_up_proj.chunk(2, dim=1)
        yield block + "ffn_gate_inp.weight", network.gate.weight
        yield block + "exp_probs_b.bias", network.expert_bias
        yield block + "ffn_gate_exps.weight", gate
        yield block + "ffn_up_exps.weight", up
        yield block + "ffn_down_exps.weight", network.experts.down_proj
