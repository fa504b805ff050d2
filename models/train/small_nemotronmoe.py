"""A small Nemotron 3 with experts. See small_nemotron.py."""

import gguf
from transformers import NemotronHForCausalLM

import small_nemotron

NAME = ARCHITECTURE = "nemotron_h_moe"



def build(latent=None):
    layers = ["linear_attention", "moe", "full_attention", "linear_attention", "moe"]
    return small_nemotron.without_limit(NemotronHForCausalLM(small_nemotron.config(
        layers, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, moe_shared_expert_intermediate_size=40,
        routed_scaling_factor=2.5, norm_topk_prob=True, moe_latent_size=latent,
    )))


def randomise(name, weight):
    small_nemotron.randomise(name, weight)
    if name.endswith("e_score_correction_bias"):
        weight.normal_(0, 0.2)


def settings(w, c):
    small_nemotron.settings(w, c)
    w.add_expert_count(c.n_routed_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)
    w.add_expert_shared_count(c.n_shared_experts)
    w.add_expert_shared_feed_forward_length(c.moe_shared_expert_intermediate_size)
    w.add_expert_weights_norm(c.norm_topk_prob)
    w.add_expert_weights_scale(c.routed_scaling_factor)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if c.moe_latent_size is not None:
        w.add_uint32(f"{ARCHITECTURE}.moe_latent_size", c.moe_latent_size)


tensors = small_nemotron.tensors
