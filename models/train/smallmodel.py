"""What the small models of all families share: the size of the vocabulary, and random weights."""

import torch

VOCABULARY = 512


def normal(weight, deviation, mean=0.0):
    """Draws weights with 6 bits after the point, so that the files compress well."""
    weight.normal_(0, deviation)
    scale = 2.0 ** torch.floor(torch.log2(torch.tensor(deviation)))
    weight.copy_(mean + torch.round(weight / scale * 16) * scale / 16)


def randomise(name, weight):
    """Draws weights so large that every part affects the result. With transformers' small initial weights, layers are almost the
    identity."""
    if "inv_freq" in name:
        return
    if weight.ndim == 1:
        normal(weight, 0.25, 1.0)
    elif "embed_tokens" in name:
        normal(weight, 1.0)
    else:
        normal(weight, 1.4 / weight.shape[-1] ** 0.5)


def interleave(weight, heads):
    """Reorders each head's rows so that RoPE's pairs (i, i + half) become neighbours (2i, 2i + 1)."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def randomise_mamba(name, weight):
    """Draws the parameters of Mamba-2 so that some heads forget within a few tokens, and others hardly."""
    if name.endswith("A_log"):
        weight.uniform_(-4, 1)
    elif name.endswith("dt_bias"):
        normal(weight, 1.0)
    elif "conv1d" in name and weight.ndim > 1:
        normal(weight, 0.6)


def mamba(block, mixer):
    """Yields the tensors of a layer of Mamba-2."""
    yield block + "ssm_in.weight", mixer.in_proj.weight
    yield block + "ssm_conv1d.weight", mixer.conv1d.weight.squeeze(1)
    yield block + "ssm_conv1d.bias", mixer.conv1d.bias
    yield block + "ssm_dt.bias", mixer.dt_bias
    yield block + "ssm_a", -torch.exp(mixer.A_log)[:, None]
    yield block + "ssm_d", mixer.D[:, None]
    yield block + "ssm_norm.weight", mixer.norm.weight.view(mixer.n_groups, -1)
    yield block + "ssm_out.weight", mixer.out_proj.weight


def attention(block, mixer):
    yield block + "attn_q.weight", mixer.q_proj.weight
    yield block + "attn_k.weight", mixer.k_proj.weight
    yield block + "attn_v.weight", mixer.v_proj.weight
    yield block + "attn_output.weight", mixer.o_proj.weight
