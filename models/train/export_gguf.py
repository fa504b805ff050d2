"""Writes the models as GGUF files in llama.cpp's names and layouts, F16 or quantised, and reads their weights again."""

import json

import gguf
import numpy as np
import torch
from gguf import quants

from architecture import is_moe
from vocabulary import CHAT_TEMPLATE, SPECIAL, THINKING, VOCAB_SIZE

# File kind: (general.file_type, type of the matrices). K-quants need llama.cpp's quantiser; see the training README.
KINDS = {
    "f16": (1, None),
    "q8_0": (7, gguf.GGMLQuantizationType.Q8_0),
    "q4_0": (2, gguf.GGMLQuantizationType.Q4_0),
}


def write_glm(path, model, mtp, tokenizer, kind, name="tiny-glm"):
    """Architecture deepseek2: split attn_k_b and attn_v_b, the MTP layer as the block after the last."""
    config = model.config
    w = gguf.GGUFWriter(path, "deepseek2")
    w.add_name(name)
    w.add_description("Miniature of GLM-4.7-Flash's architecture")
    layers = config.num_hidden_layers
    w.add_block_count(layers + 1)
    _add_sizes(w, config)
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
    w.add_file_type(KINDS[kind][0])
    _add_tokenizer(w, tokenizer)

    _add_tensors(w, glm_tensors(model, mtp), kind)


def glm_tensors(model, mtp):
    """Yields each tensor's name and the view of the model's weights that it holds."""
    config, layers = model.config, model.config.num_hidden_layers
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight
    yield "output.weight", model.lm_head.weight
    for i, layer in enumerate([*model.model.layers, mtp.layer]):
        yield from _glm_layer(f"blk.{i}.", config, layer)
    yield f"blk.{layers}.nextn.eh_proj.weight", mtp.eh_proj.weight
    yield f"blk.{layers}.nextn.enorm.weight", mtp.enorm.weight
    yield f"blk.{layers}.nextn.hnorm.weight", mtp.hnorm.weight
    yield f"blk.{layers}.nextn.shared_head_norm.weight", mtp.head_norm.weight


def _glm_layer(block, config, layer):
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
    if not is_moe(layer):
        yield from _ffn(block + "ffn_{}.weight", layer.mlp)
        return
    moe = layer.mlp
    gate, up = moe.experts.gate_up_proj.chunk(2, 1)
    yield block + "ffn_gate_inp.weight", moe.gate.weight
    yield block + "exp_probs_b.bias", moe.gate.e_score_correction_bias
    yield block + "ffn_gate_exps.weight", gate
    yield block + "ffn_up_exps.weight", up
    yield block + "ffn_down_exps.weight", moe.experts.down_proj
    yield from _ffn(block + "ffn_{}_shexp.weight", moe.shared_experts)


def write_llama(path, model, tokenizer, kind, name="tiny-llama"):
    """Architecture llama: query and key rows permuted for interleaved RoPE pairs, output tied to the embedding."""
    config = model.config
    w = gguf.GGUFWriter(path, "llama")
    w.add_name(name)
    w.add_description("Miniature Llama-architecture model")
    w.add_block_count(config.num_hidden_layers)
    _add_sizes(w, config)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    w.add_file_type(KINDS[kind][0])
    _add_tokenizer(w, tokenizer)

    _add_tensors(w, llama_tensors(model), kind)


def llama_tensors(model):
    """Yields each tensor's name and the view of the model's weights that it holds."""
    config = model.config
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight
    for i, layer in enumerate(model.model.layers):
        block, attention = f"blk.{i}.", layer.self_attn
        yield block + "attn_norm.weight", layer.input_layernorm.weight
        yield block + "attn_q.weight", _interleave(attention.q_proj.weight, config.num_attention_heads)
        yield block + "attn_k.weight", _interleave(attention.k_proj.weight, config.num_key_value_heads)
        yield block + "attn_v.weight", attention.v_proj.weight
        yield block + "attn_output.weight", attention.o_proj.weight
        yield block + "ffn_norm.weight", layer.post_attention_layernorm.weight
        yield from _ffn(block + "ffn_{}.weight", layer.mlp)


def _interleave(weight, heads):
    """Reorders each head's rows so that RoPE's pairs (i, i + half) become neighbours (2i, 2i + 1): [heads, half, 2, columns]."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).swapaxes(1, 2)


def _ffn(pattern, mlp):
    yield pattern.format("gate"), mlp.gate_proj.weight
    yield pattern.format("up"), mlp.up_proj.weight
    yield pattern.format("down"), mlp.down_proj.weight


def read_weights(path, tensors):
    """Fills a model's weights with those of a GGUF file, dequantised; tensors is glm_tensors or llama_tensors of it."""
    file = {t.name: t for t in gguf.GGUFReader(path).tensors}
    for name, view in tensors:
        t = file[name]
        weights = quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        view.detach().copy_(torch.from_numpy(weights).view(view.shape))


def _add_tensors(w, tensors, kind):
    """Vectors and routers stay F32; in quantised files the embedding and the output head stay Q8_0."""
    for name, tensor in tensors:
        array = tensor.detach().float().cpu().numpy()
        if array.ndim == 4:  # what _interleave gives
            array = array.reshape(-1, array.shape[-1])
        quantised = KINDS[kind][1]
        if array.ndim == 1 or "ffn_gate_inp" in name:
            w.add_tensor(name, array.astype(np.float32))
        elif quantised is None:
            w.add_tensor(name, array.astype(np.float16))
        else:
            if name in ("token_embd.weight", "output.weight"):
                quantised = gguf.GGMLQuantizationType.Q8_0
            w.add_tensor(name, quants.quantize(np.ascontiguousarray(array), quantised), raw_dtype=quantised)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def _add_sizes(w, config):
    w.add_vocab_size(VOCAB_SIZE)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    w.add_layer_norm_rms_eps(config.rms_norm_eps)


def _add_tokenizer(w, tokenizer):
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    tokens = sorted(vocabulary, key=vocabulary.get)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("glm4")
    w.add_token_list(tokens)
    w.add_token_types([_token_type(t) for t in tokens])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    w.add_bos_token_id(vocabulary["[gMASK]"])
    w.add_eos_token_id(vocabulary["<|endoftext|>"])
    w.add_eot_token_id(vocabulary["<|user|>"])
    w.add_unk_token_id(vocabulary["<|endoftext|>"])
    w.add_pad_token_id(vocabulary["<|endoftext|>"])
    w.add_add_bos_token(False)  # the chat template writes [gMASK] itself
    w.add_chat_template(CHAT_TEMPLATE)


def _token_type(token):
    if token in THINKING:
        return gguf.TokenType.USER_DEFINED
    return gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL
