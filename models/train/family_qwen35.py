"""Qwen3.5's architecture in miniature: gated delta nets, every fourth layer with gated attention, and the MTP layer, which transformers lacks.
Also its GGUF file.

The model itself is transformers' own class. Its results in float32 are the reference for Ingot.
"""

import gguf
import torch
from torch import nn
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen

import export_gguf
import recurrent
from vocabulary import CONTEXT, VOCAB_SIZE


def _config():
    return Qwen3_5TextConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        linear_num_key_heads=4,
        linear_num_value_heads=8,
        linear_key_head_dim=32,
        linear_value_head_dim=32,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [6, 5, 5]},
        attn_implementation="sdpa",
    )


class MTP(recurrent.MTP):
    """The layer's state is normalised, both for the output head and for the next draft."""

    def __init__(self, config):
        super().__init__(config, qwen.Qwen3_5DecoderLayer, qwen.Qwen3_5RMSNorm)

    def positions(self, n, device):
        """Position ids of n slots, as the rotary embedding takes them: time, height and width, which are equal in texts."""
        return torch.arange(n, device=device).expand(3, 1, n)

    def join(self, embeddings, hidden):
        """The layer's input from the next token's embedding and a hidden state, both [batch, slots, hidden]."""
        return self.eh_proj(torch.cat([self.enorm(embeddings), self.hnorm(hidden)], -1))

    def run(self, slots, mask, position_embeddings):
        out = self.layer(slots, attention_mask=mask, position_embeddings=position_embeddings)
        return self.head_norm(out[0] if isinstance(out, tuple) else out)

    def forward(self, embeddings, hidden, position_embeddings):
        return self.run(self.join(embeddings, hidden), None, position_embeddings)

    def output(self, state):
        """What the output head multiplies."""
        return state


def build(device):
    """Returns a freshly initialised (model, MTP layer)."""
    config = _config()
    model = Qwen3_5ForCausalLM(config).to(device)
    mtp = MTP(config).to(device)
    for module in mtp.modules():
        if isinstance(module, nn.Linear):
            model._init_weights(module)
    return model, mtp


def write(path, model, mtp, tokenizer, kind):
    """Writes a GGUF file of architecture qwen35, of which the MTP layer is the last block."""
    w = gguf.GGUFWriter(path, "qwen35")
    w.add_name("tiny-qwen35")
    w.add_description("Miniature of Qwen3.5's architecture")
    w.add_vocab_size(VOCAB_SIZE)
    recurrent.add_settings(w, "qwen35", model.config, mtp)
    w.add_file_type(export_gguf.KINDS[kind][0])
    export_gguf.add_tokenizer(w, tokenizer)
    export_gguf.add_tensors(w, recurrent.tensors(model, mtp), kind)
