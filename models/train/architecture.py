"""The two models' shapes, and the parts transformers lacks: the MTP layer and a dense form of the experts.

The models themselves are transformers' own classes; what is computed here in float32 is the reference for Ingot.
"""

import torch
from torch import nn
from transformers import Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.models.glm4_moe_lite import modeling_glm4_moe_lite as glm

from vocabulary import VOCAB_SIZE

CONTEXT = 4096


def glm_config(**sizes):
    """GLM-4.7-Flash in miniature: MLA, one dense layer, then sigmoid-routed experts with a shared one."""
    return Glm4MoeLiteConfig(**dict(
        vocab_size=VOCAB_SIZE,
        hidden_size=256,
        intermediate_size=768,
        moe_intermediate_size=128,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=4,
        n_shared_experts=1,
        n_routed_experts=8,
        num_experts_per_tok=2,
        routed_scaling_factor=1.8,
        kv_lora_rank=64,
        q_lora_rank=128,
        qk_rope_head_dim=32,
        qk_nope_head_dim=32,
        v_head_dim=64,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        attn_implementation="sdpa",
    ) | sizes)


def llama_config(**sizes):
    """A small Llama with grouped-query attention and tied embeddings."""
    return LlamaConfig(**dict(
        vocab_size=VOCAB_SIZE,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        attn_implementation="sdpa",
    ) | sizes)


class MTP(nn.Module):
    """One multi-token-prediction layer, wired as vLLM wires DeepSeek's: eh_proj([enorm(embedding); hnorm(hidden)])."""

    def __init__(self, config):
        super().__init__()
        hidden = config.hidden_size
        self.enorm = glm.Glm4MoeLiteRMSNorm(hidden, config.rms_norm_eps)
        self.hnorm = glm.Glm4MoeLiteRMSNorm(hidden, config.rms_norm_eps)
        self.eh_proj = nn.Linear(2 * hidden, hidden, bias=False)
        self.layer = glm.Glm4MoeLiteDecoderLayer(config, config.num_hidden_layers - 1)
        self.head_norm = glm.Glm4MoeLiteRMSNorm(hidden, config.rms_norm_eps)

    def join(self, embeddings, hidden):
        """The layer's input from the next token's embedding and a hidden state, both [batch, slots, hidden]."""
        return self.eh_proj(torch.cat([self.enorm(embeddings), self.hnorm(hidden)], -1))

    def forward(self, embeddings, hidden, position_embeddings):
        return self.layer(
            self.join(embeddings, hidden), attention_mask=None, position_embeddings=position_embeddings
        )


def build_glm(device, **sizes):
    """Returns a freshly initialised (model, MTP layer); sizes override those of glm_config."""
    _replace_experts()
    config = glm_config(**sizes)
    model = Glm4MoeLiteForCausalLM(config).to(device)
    mtp = MTP(config).to(device)
    for module in mtp.modules():
        if isinstance(module, (nn.Linear, glm.Glm4MoeLiteTopkRouter, glm.Glm4MoeLiteExperts)):
            model._init_weights(module)
    return model, mtp


def build_llama(device, **sizes):
    return LlamaForCausalLM(llama_config(**sizes)).to(device)


def routers(*modules):
    """Every MoE router inside the given modules."""
    return [m for module in modules for m in module.modules() if isinstance(m, glm.Glm4MoeLiteTopkRouter)]


def is_moe(layer):
    return isinstance(layer.mlp, glm.Glm4MoeLiteMoE)


def _dense_experts(self, x, chosen, weights):
    """Runs every expert on every token and weighs out the ones not chosen: at 8 experts faster than gathering."""
    scale = torch.zeros(x.shape[0], self.num_experts, device=x.device, dtype=torch.float32)
    scale.scatter_(1, chosen, weights.float())
    gate, up = torch.einsum("td,efd->tef", x, self.gate_up_proj.to(x.dtype)).chunk(2, -1)
    hidden = self.act_fn(gate) * up * scale.to(x.dtype).unsqueeze(-1)
    return torch.einsum("tef,edf->td", hidden, self.down_proj.to(x.dtype))


def _replace_experts():
    """Puts _dense_experts in place and has each router keep its last choice, for load balancing in training."""
    if glm.Glm4MoeLiteExperts.forward is _dense_experts:
        return
    glm.Glm4MoeLiteExperts.forward = _dense_experts
    route = glm.Glm4MoeLiteTopkRouter.forward

    def remember(self, x):
        out = route(self, x)
        self.last_chosen = out[2].detach()
        return out

    glm.Glm4MoeLiteTopkRouter.forward = remember
