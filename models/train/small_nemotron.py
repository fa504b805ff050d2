"""A small Nemotron-H: settings and tensors of its GGUF file. The model is transformers' own class."""

from transformers import NemotronHConfig, NemotronHForCausalLM

import smallmodel

NAME = ARCHITECTURE = "nemotron_h"


def config(layers, **sizes):
    return NemotronHConfig(**dict(
        vocab_size=smallmodel.VOCABULARY, hidden_size=64, layers_block_type=layers, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        intermediate_size=80, max_position_embeddings=1024, mamba_num_heads=4, mamba_head_dim=16, n_groups=2, ssm_state_size=16, chunk_size=64,
        layer_norm_epsilon=1e-5, tie_word_embeddings=False, rescale_prenorm_residual=False,
    ) | sizes)


def build():
    return without_limit(NemotronHForCausalLM(config(["linear_attention", "mlp", "linear_attention", "full_attention", "mlp", "linear_attention"])))


def without_limit(model):
    """Removes transformers' lower limit of dt, time_step_min, which the models' own code does not have."""
    for layer in model.model.layers:
        if layer.block_type == "linear_attention":
            layer.mixer.time_step_limit = (0.0, float("inf"))
    return model


def randomise(name, weight):
    smallmodel.randomise(name, weight)
    smallmodel.randomise_mamba(name, weight)
    if "embeddings" in name:
        smallmodel.normal(weight, 1.0)


def settings(w, c):
    w.add_block_count(len(c.layers_block_type))
    w.add_feed_forward_length([c.intermediate_size if t in ("mlp", "moe") else 0 for t in c.layers_block_type])
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv([c.num_key_value_heads if t == "full_attention" else 0 for t in c.layers_block_type])
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_layer_norm_rms_eps(c.layer_norm_epsilon)
    w.add_rope_scaling_finetuned(False)
    w.add_ssm_conv_kernel(c.conv_kernel)
    w.add_ssm_state_size(c.ssm_state_size)
    w.add_ssm_group_count(c.n_groups)
    w.add_ssm_inner_size(c.mamba_num_heads * c.mamba_head_dim)
    w.add_ssm_time_step_rank(c.mamba_num_heads)


def tensors(model):
    trunk = model.model
    yield "token_embd.weight", trunk.embeddings.weight if hasattr(trunk, "embeddings") else trunk.embed_tokens.weight
    yield "output_norm.weight", trunk.norm_f.weight if hasattr(trunk, "norm_f") else trunk.norm.weight
    yield "output.weight", model.lm_head.weight
    for i, layer in enumerate(trunk.layers):
        block, mixer = f"blk.{i}.", layer.mixer
        yield block + "attn_norm.weight", layer.norm.weight
        if layer.block_type == "linear_attention":
            yield from smallmodel.mamba(block, mixer)
        elif layer.block_type == "full_attention":
            yield from smallmodel.attention(block, mixer)
        elif layer.block_type == "mlp":
            yield block + "ffn_up.weight", mixer.up_proj.weight
            yield block + "ffn_down.weight", mixer.down_proj.weight
        else:
            yield from experts(block, mixer)


def experts(block, mixer):
    yield block + "ffn_gate_inp.weight", mixer.gate.weight
    yield block + "exp_probs_b.bias", mixer.gate.e_score_correction_bias
    yield block + "ffn_up_exps.weight", mixer.experts.up_proj
    yield block + "ffn_down_exps.weight", mixer.experts.down_proj
    yield block + "ffn_up_shexp.weight", mixer.shared_experts.up_proj.weight
    yield block + "ffn_down_shexp.weight", mixer.shared_experts.down_proj.weight
    if mixer.config.moe_latent_size is not None:
        yield block + "ffn_latent_down.weight", mixer.fc1_latent_proj.weight
        yield block + "ffn_latent_up.weight", mixer.fc2_latent_proj.weight
