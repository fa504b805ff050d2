"""A small Granite 4 H: settings and tensors of its GGUF file. The model is transformers' own class."""

from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

import smallmodel

NAME = ARCHITECTURE = "granitehybrid"


def build():
    return GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(
        vocab_size=smallmodel.VOCABULARY, hidden_size=64, intermediate_size=24, shared_intermediate_size=40, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, rms_norm_eps=1e-5, num_local_experts=5,
        num_experts_per_tok=2, layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        mamba_n_heads=4, mamba_d_head=16, mamba_expand=1, mamba_n_groups=2, mamba_d_state=16, mamba_chunk_size=64, tie_word_embeddings=False,
        embedding_multiplier=0.5, logits_scaling=2.0, residual_multiplier=0.8, attention_multiplier=0.2, position_embedding_type="nope",
    ))


def randomise(name, weight):
    smallmodel.randomise(name, weight)
    smallmodel.randomise_mamba(name, weight)


def settings(w, c):
    recurrent = [t == "linear_attention" for t in c.layer_types]
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv([0 if r else c.num_key_value_heads for r in recurrent])
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_scaling_finetuned(False)
    w.add_expert_count(c.num_local_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.intermediate_size)
    w.add_expert_shared_feed_forward_length(c.shared_intermediate_size)
    w.add_embedding_scale(c.embedding_multiplier)
    w.add_residual_scale(c.residual_multiplier)
    w.add_attention_scale(c.attention_multiplier)
    w.add_logit_scale(c.logits_scaling)
    w.add_ssm_conv_kernel(c.mamba_d_conv)
    w.add_ssm_state_size(c.mamba_d_state)
    w.add_ssm_group_count(c.mamba_n_groups)
    w.add_ssm_inner_size(c.mamba_n_heads * c.mamba_d_head)
    w.add_ssm_time_step_rank(c.mamba_n_heads)


def tensors(model):
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight
    yield "output.weight", model.lm_head.weight
    for i, layer in enumerate(model.model.layers):
        block = f"blk.{i}."
        yield block + "attn_norm.weight", layer.input_layernorm.weight
        yield block + "ffn_norm.weight", layer.post_attention_layernorm.weight
        if layer.mamba is not None:
            yield from smallmodel.mamba(block, layer.mamba)
        else:
            yield from smallmodel.attention(block, layer.self_attn)
        gate, up = layer.block_sparse_moe.experts.gate_up_proj.chunk(2, dim=1)
        shared_gate, shared_up = layer.shared_mlp.input_linear.weight.chunk(2)
        yield block + "ffn_gate_inp.weight", layer.block_sparse_moe.router.weight
        yield block + "ffn_gate_exps.weight", gate
        yield block + "ffn_up_exps.weight", up
        yield block + "ffn_down_exps.weight", layer.block_sparse_moe.experts.down_proj
        yield block + "ffn_gate_shexp.weight", shared_gate
        yield block + "ffn_up_shexp.weight", shared_up
        yield block + "ffn_down_shexp.weight", layer.shared_mlp.output_linear.weight
