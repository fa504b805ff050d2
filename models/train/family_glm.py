"""GLM-4.7-Flash's architecture in miniature: its shapes, the parts transformers lacks (the MTP layer and a dense form of the
experts), and its GGUF file.

The model itself is transformers' own class. Its results in float32 are the reference for Ingot.
"""

import gguf
import torch
from torch import nn
from transformers import Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM
from transformers.models.glm4_moe_lite import modeling_glm4_moe_lite as glm

import export_gguf
from vocabulary import CONTEXT, VOCAB_SIZE

NAME = "glm"
MICRO = dict(
    hidden_size=64, intermediate_size=128, moe_intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
    num_key_value_heads=2, n_routed_experts=4, kv_lora_rank=32, q_lora_rank=32, qk_rope_head_dim=16,
    qk_nope_head_dim=32, v_head_dim=32, max_position_embeddings=1024,
)


def _config(**sizes):
    """MLA, one dense layer, then sigmoid-routed experts with a shared one."""
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

    def positions(self, n, device):
        """Position ids of n slots, as the rotary embedding takes them."""
        return torch.arange(n, device=device)[None]

    def join(self, embeddings, hidden):
        """The layer's input from the next token's embedding and a hidden state, both [batch, slots, hidden]."""
        return self.eh_proj(torch.cat([self.enorm(embeddings), self.hnorm(hidden)], -1))

    def run(self, slots, mask, position_embeddings):
        return self.layer(slots, attention_mask=mask, position_embeddings=position_embeddings)

    def forward(self, embeddings, hidden, position_embeddings):
        return self.run(self.join(embeddings, hidden), None, position_embeddings)

    def output(self, state):
        """What the output head multiplies."""
        return self.head_norm(state)


def build(device, **sizes):
    """Returns a freshly initialised (model, MTP layer); sizes override those of _config."""
    _replace_experts()
    config = _config(**sizes)
    model = Glm4MoeLiteForCausalLM(config).to(device)
    mtp = MTP(config).to(device)
    for module in mtp.modules():
        if isinstance(module, (nn.Linear, glm.Glm4MoeLiteTopkRouter, glm.Glm4MoeLiteExperts)):
            model._init_weights(module)
    return model, mtp


def routers(*modules):
    """Every MoE router inside the given modules."""
    return [m for module in modules for m in module.modules() if isinstance(m, glm.Glm4MoeLiteTopkRouter)]


def _is_moe(layer):
    return isinstance(layer.mlp, glm.Glm4MoeLiteMoE)


def write(path, model, mtp, tokenizer, kind, name="tiny-glm"):
    """Writes a GGUF file of architecture deepseek2: attn_k_b and attn_v_b are separate, and the MTP layer is the last block."""
    config = model.config
    w = gguf.GGUFWriter(path, "deepseek2")
    w.add_name(name)
    w.add_description("Miniature of GLM-4.7-Flash's architecture")
    layers = config.num_hidden_layers
    w.add_block_count(layers + 1)
    export_gguf.add_sizes(w, config)
    w.add_head_count_kv(1)  # the absorbed form has one latent head
    w.add_leading_dense_block_count(1)
    w.add_q_lora_rank(config.q_lora_rank)
    w.add_kv_lora_rank(config.kv_lora_rank)
    w.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    w.add_value_length(config.kv_lora_rank)
    w.add_uint32("deepseek2.attention.key_length_mla", config.qk_nope_head_dim + config.qk_rope_head_dim)
    w.add_uint32("deepseek2.attention.value_length_mla", config.v_head_dim)
    w.add_expert_count(config.n_routed_experts)
    w.add_expert_used_count(config.num_experts_per_tok)
    w.add_expert_shared_count(config.n_shared_experts)
    w.add_expert_feed_forward_length(config.moe_intermediate_size)
    w.add_expert_weights_scale(config.routed_scaling_factor)
    w.add_expert_weights_norm(True)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_rope_dimension_count(config.qk_rope_head_dim)
    w.add_uint32("deepseek2.nextn_predict_layers", 1)
    w.add_file_type(export_gguf.KINDS[kind][0])
    export_gguf.add_tokenizer(w, tokenizer)

    export_gguf.add_tensors(w, tensors(model, mtp), kind)


def tensors(model, mtp):
    """Yields each tensor's name and the view of the model's weights that it holds."""
    config, layers = model.config, model.config.num_hidden_layers
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight
    yield "output.weight", model.lm_head.weight
    for i, layer in enumerate([*model.model.layers, mtp.layer]):
        yield from _layer(f"blk.{i}.", config, layer)
    yield f"blk.{layers}.nextn.eh_proj.weight", mtp.eh_proj.weight
    yield f"blk.{layers}.nextn.enorm.weight", mtp.enorm.weight
    yield f"blk.{layers}.nextn.hnorm.weight", mtp.hnorm.weight
    yield f"blk.{layers}.nextn.shared_head_norm.weight", mtp.head_norm.weight


def _layer(block, config, layer):
    attention = layer.self_attn
    yield block + "attn_norm.weight", layer.input_layernorm.weight
    yield block + "ffn_norm.weight", layer.post_attention_layernorm.weight
    yield block + "attn_q_a.weight", attention.q_a_proj.weight
    yield block + "attn_q_a_norm.weight", attention.q_a_layernorm.weight
    yield block + "attn_q_b.weight", attention.q_b_proj.weight
    yield block + "attn_kv_a_mqa.weight", attention.kv_a_proj_with_mqa.weight
    yield block + "attn_kv_a_norm.weight", attention.kv_a_layernorm.weight
    # kv_b holds, per head, the rows that expand the latent to the key's nope part and to the value. GGUF splits them
    # and stores the key half transposed, as the absorbed form multiplies it.
    kv_b = attention.kv_b_proj.weight.view(
        config.num_attention_heads, config.qk_nope_head_dim + config.v_head_dim, config.kv_lora_rank
    )
    k_b, v_b = kv_b.split([config.qk_nope_head_dim, config.v_head_dim], 1)
    yield block + "attn_k_b.weight", k_b.transpose(1, 2)
    yield block + "attn_v_b.weight", v_b
    yield block + "attn_output.weight", attention.o_proj.weight
    if not _is_moe(layer):
        yield from export_gguf.ffn(block + "ffn_{}.weight", layer.mlp)
        return
    moe = layer.mlp
    gate, up = moe.experts.gate_up_proj.chunk(2, 1)
    yield block + "ffn_gate_inp.weight", moe.gate.weight
    yield block + "exp_probs_b.bias", moe.gate.e_score_correction_bias
    yield block + "ffn_gate_exps.weight", gate
    yield block + "ffn_up_exps.weight", up
    yield block + "ffn_down_exps.weight", moe.experts.down_proj
    yield from export_gguf.ffn(block + "ffn_{}_shexp.weight", moe.shared_experts)


def _dense_experts(self, x, chosen, weights):
    """Runs every expert on every token; those that are not chosen get weight 0. With 8 experts, this is faster than gathering."""
    scale = torch.zeros(x.shape[0], self.num_experts, device=x.device, dtype=torch.float32)
    scale.scatter_(1, chosen, weights.float())
    gate, up = torch.einsum("td,efd->tef", x, self.gate_up_proj.to(x.dtype)).chunk(2, -1)
    hidden = self.act_fn(gate) * up * scale.to(x.dtype).unsqueeze(-1)
    return torch.einsum("tef,edf->td", hidden, self.down_proj.to(x.dtype))


def _replace_experts():
    """Makes the experts use _dense_experts, and each router store its last choice, for load balancing in training."""
    if glm.Glm4MoeLiteExperts.forward is _dense_experts:
        return
    glm.Glm4MoeLiteExperts.forward = _dense_experts
    route = glm.Glm4MoeLiteTopkRouter.forward

    def remember(self, x):
        out = route(self, x)
        self.last_chosen = out[2].detach()
        return out

    glm.Glm4MoeLiteTopkRouter.forward = remember
