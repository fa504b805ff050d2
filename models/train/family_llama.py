"""The Llama architecture in miniature: its shapes and its GGUF file. The model itself is transformers' own class."""

import gguf
from transformers import LlamaConfig, LlamaForCausalLM

import export_gguf
from vocabulary import CONTEXT, VOCAB_SIZE

NAME = "llama"
MICRO = dict(
    hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=1024,
)


def _config(**sizes):
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


def build(device, **sizes):
    """Returns a freshly initialised (model, None): there is no MTP layer."""
    return LlamaForCausalLM(_config(**sizes)).to(device), None


def write(path, model, mtp, tokenizer, kind, name="tiny-llama"):
    """Writes a GGUF file of architecture llama: query and key rows are permuted for interleaved RoPE pairs, and the output
    head is the embedding."""
    config = model.config
    w = gguf.GGUFWriter(path, "llama")
    w.add_name(name)
    w.add_description("Miniature Llama-architecture model")
    w.add_block_count(config.num_hidden_layers)
    export_gguf.add_sizes(w, config)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    w.add_file_type(export_gguf.KINDS[kind][0])
    export_gguf.add_tokenizer(w, tokenizer)

    export_gguf.add_tensors(w, tensors(model, mtp), kind)


def tensors(model, _):
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
        yield from export_gguf.ffn(block + "ffn_{}.weight", layer.mlp)


def _interleave(weight, heads):
    """Reorders each head's rows so that RoPE's pairs (i, i + half) become neighbours (2i, 2i + 1): [heads, half, 2, columns]."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).swapaxes(1, 2)
