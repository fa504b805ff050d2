"""The training loop: AdamW for a fixed time, with the losses of the trunk and the MTP layer."""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn

from family_glm import routers
from vocabulary import VOCAB_SIZE

SEQUENCE = 512  # tokens in a training sequence; documents are packed end to end
BATCH = 64  # sequences in a step
WARMUP_STEPS = 200
PEAK_RATE = 3e-3
WEIGHT_DECAY = 0.05
MTP_DEPTH = 3
MTP_WEIGHT = 0.3
BALANCE_RATE = 1e-3


def train(model, mtp, sequences, seconds):
    """Trains model, and mtp when it is not None, for `seconds` of wall-clock time.

    sequences: int16 tensor [n, SEQUENCE] on the CPU, used in a new random order in each epoch. Since the run ends
    after a time and not after a number of steps, two runs never give the same weights, whatever the seed.
    """
    device = model.device
    modules = [model] if mtp is None else [model, mtp]
    parameters = [p for m in modules for p in m.parameters()]
    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=PEAK_RATE,
        betas=(0.9, 0.95),
        fused=True,
    )
    start, step, at = time.time(), 0, 0
    order = torch.randperm(len(sequences))
    while (done := (time.time() - start) / seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = _rate(step, done)
        if at + BATCH > len(sequences):
            order, at = torch.randperm(len(sequences)), 0
        ids = sequences[order[at : at + BATCH]].to(device).long()
        at += BATCH

        with torch.autocast(device.type, torch.bfloat16):
            loss, mtp_losses = _losses(model, mtp, ids)
            total = loss
            for depth, mtp_loss in enumerate(mtp_losses, 1):
                total = total + MTP_WEIGHT / MTP_DEPTH * mtp_loss * (2 if depth == 1 else 1)
        optimiser.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        _balance(routers(*modules), BALANCE_RATE * (1 - done))

        if step % 200 == 0:
            shown = [round(x.item(), 4) for x in mtp_losses]
            print(f"step {step}: {time.time() - start:.0f} s, loss {loss.item():.4f}, mtp {shown}", flush=True)
        step += 1
    print(f"{step} steps, {step * BATCH * SEQUENCE} tokens", flush=True)


def _rate(step, done):
    """Linear warm-up by steps, then a cosine over the time, down to 2 % of the peak."""
    return PEAK_RATE * min(1, (step + 1) / WARMUP_STEPS) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))


def _losses(model, mtp, ids):
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    loss = _cross_entropy(model.lm_head(hidden), ids[:, 1:])
    if mtp is None:
        return loss, []
    embeddings = model.model.embed_tokens(ids)
    length = ids.shape[1]
    positions = mtp.positions(length, ids.device)
    losses = []
    for depth in range(1, MTP_DEPTH + 1):
        # Position i joins the embedding of token i+depth with the hidden state of the previous depth at position i, and
        # predicts token i+depth+1. From depth 2 on, the hidden state is the MTP layer's own output, as in drafting.
        next_embeddings = embeddings[:, depth:]
        rope = model.model.rotary_emb(next_embeddings, position_ids=positions[..., depth - 1 : length - 1])
        hidden = mtp(next_embeddings, hidden[:, : length - depth], rope)
        losses.append(_cross_entropy(model.lm_head(mtp.output(hidden)), ids[:, depth + 1 :]))
    return loss, losses


def _cross_entropy(logits, targets):
    """Mean loss of logits [batch, n+1, vocabulary] against targets [batch, n]; the last position has no target."""
    return F.cross_entropy(logits[:, :-1].float().reshape(-1, VOCAB_SIZE), targets.reshape(-1))


@torch.no_grad()
def _balance(all_routers, rate):
    """Moves each expert's selection bias towards an even load (DeepSeek-V3's loss-free balancing)."""
    for router in all_routers:
        load = torch.bincount(router.last_chosen.reshape(-1), minlength=router.num_experts).float()
        router.e_score_correction_bias += rate * torch.sign(load.mean() - load)


@torch.no_grad()
def round_to_half(module):
    """Rounds every matrix but the routers' to float16, so that the F16 file holds exactly what the references used."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1 and not name.endswith("gate.weight"):
            parameter.copy_(parameter.half().float())
