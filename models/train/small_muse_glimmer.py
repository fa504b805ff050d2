"""A small Muse Glimmer: settings and tensors of its GGUF file. The model is transformers' own class, without images."""

import torch
from torch import nn
from transformers import MuseGlimmerTextConfig
from transformers.models.muse_glimmer.modeling_muse_glimmer import MuseGlimmerTextModel

import smallmodel

NAME = ARCHITECTURE = "muse-glimmer"


class TextModel(nn.Module):
    """The text model with the output head of MuseGlimmerForConditionalGeneration."""

    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, MuseGlimmerTextModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.device = torch.device("cpu")

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        result = self.model(input_ids=input_ids, cache=past_key_values, use_cache=use_cache)
        c = self.config
        result.logits = self.lm_head(result.last_hidden_state) * c.output_multiplier
        result.logits = torch.tanh(result.logits / c.final_logit_softcapping) * c.final_logit_softcapping
        result.past_key_values = result.get("cache")
        return result


def build():
    return TextModel(MuseGlimmerTextConfig(
        vocab_size=smallmodel.VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=5, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=1024, sliding_window=16, rms_norm_eps=1e-3,
        layer_types=["sliding_attention"] * 3 + ["full_attention", "sliding_attention"], layer_rope_theta=[5e5] * 3 + [0, 5e5],
        rope_parameters={"rope_type": "default", "rope_theta": 5e5}, output_multiplier=1.5, final_logit_softcapping=12.0,
        pad_token_id=0, attn_implementation="eager",
    ))


def randomise(name, weight):
    smallmodel.randomise(name, weight)
    if weight.ndim == 1 and "layernorm" in name:  # these norms add 1
        weight.sub_(1)


def settings(w, c):
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_sliding_window(c.sliding_window)
    w.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
    w.add_logit_scale(c.output_multiplier)
    w.add_final_logit_softcapping(c.final_logit_softcapping)


def tensors(model):
    c, m = model.config, model.model
    yield "token_embd.weight", m.embed_tokens.weight
    yield "output_norm.weight", m.norm.weight
    yield "output.weight", model.lm_head.weight
    for i, layer in enumerate(m.layers):
        block, attention, mlp = f"blk.{i}.", layer.self_attn, layer.mlp
        yield block + "attn_norm.weight", 1 + layer.input_layernorm.weight
        yield block + "attn_q.weight", smallmodel.interleave(attention.q_proj.weight, c.num_attention_heads)
        yield block + "attn_k.weight", smallmodel.interleave(attention.k_proj.weight, c.num_key_value_heads)
        yield block + "attn_v.weight", attention.v_proj.weight
        yield block + "attn_gate.weight", attention.gate_proj.weight
        yield block + "attn_output.weight", attention.o_proj.weight
        yield block + "attn_q_norm.weight", torch.full((c.head_dim,), c.qk_scale_factor)
        yield block + "attn_k_norm.weight", torch.ones(c.head_dim)
        yield block + "post_attention_norm.weight", 1 + layer.post_attention_layernorm.weight
        yield block + "ffn_norm.weight", 1 + layer.pre_feedforward_layernorm.weight
        yield block + "ffn_gate.weight", mlp.gate_proj.weight
        yield block + "ffn_up.weight", mlp.up_proj.weight
        yield block + "ffn_down.weight", mlp.down_proj.weight
        yield block + "post_ffw_norm.weight", 1 + layer.post_feedforward_layernorm.weight
