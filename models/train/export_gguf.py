"""The parts that the GGUF files of all families share: F16 or quantised tensors, sizes and the tokenizer. Also reads weights."""

import json

import gguf
import numpy as np
import torch
from gguf import quants

from vocabulary import CHAT_TEMPLATE, SPECIAL, THINKING, VOCAB_SIZE

# File kind: (general.file_type, type of the matrices). K-quants need llama.cpp's quantiser; see the training README.
KINDS = {
    "f16": (1, None),
    "q8_0": (7, gguf.GGMLQuantizationType.Q8_0),
    "q4_0": (2, gguf.GGMLQuantizationType.Q4_0),
}


def ffn(pattern, mlp):
    yield pattern.format("gate"), mlp.gate_proj.weight
    yield pattern.format("up"), mlp.up_proj.weight
    yield pattern.format("down"), mlp.down_proj.weight


def read_weights(path, tensors):
    """Fills a model's weights with those of a GGUF file, dequantised. tensors is the result of the family's function tensors."""
    file = {t.name: t for t in gguf.GGUFReader(path).tensors}
    for name, view in tensors:
        t = file[name]
        weights = quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        view.detach().copy_(torch.from_numpy(weights).view(view.shape))


def add_tensors(w, tensors, kind):
    """Writes a model's tensors. Vectors, routers and short convolutions are F32. In quantised files, the embedding and the output head are Q8_0."""
    for name, tensor in tensors:
        array = tensor.detach().float().cpu().numpy()
        if array.ndim == 4:  # the shape that family_llama._interleave returns
            array = array.reshape(-1, array.shape[-1])
        quantised = KINDS[kind][1]
        if array.ndim == 1 or "ffn_gate_inp" in name or "conv1d" in name:
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


def add_sizes(w, config):
    w.add_vocab_size(VOCAB_SIZE)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    w.add_layer_norm_rms_eps(config.rms_norm_eps)


def add_tokenizer(w, tokenizer):
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
