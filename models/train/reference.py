"""Reference outputs and measurements: greedy answers, logits, MTP drafts, accuracy. All in float32."""

import torch

from optimise import MTP_DEPTH
from vocabulary import prompt, stop_ids

ANSWER_TOKENS = 160  # maximum tokens of an answer whose accuracy is measured
CASE_TOKENS = 96  # maximum tokens of an answer in a reference case


@torch.no_grad()
def greedy(model, ids, limit, stop):
    """The most likely continuation of ids. It ends with a stop id, or after `limit` tokens."""
    x = torch.tensor([ids], device=model.device)
    past, out = None, []
    for _ in range(limit):
        result = model(input_ids=x, past_key_values=past, use_cache=True)
        past = result.past_key_values
        token = int(result.logits[0, -1].argmax())
        out.append(token)
        if token in stop:
            break
        x = torch.tensor([[token]], device=model.device)
    return out


@torch.no_grad()
def mtp_drafts(model, mtp, ids, out):
    """For each token of out, MTP_DEPTH rows of logits drafted once that token is known.

    At position j, the MTP layer takes the embedding of token j+1 and the trunk's hidden state of token j after the final
    norm. At the positions of further drafts, it takes its own output in place of that hidden state.
    """
    x = torch.tensor([ids + out], device=model.device)
    embed, rotary = model.model.embed_tokens, model.model.rotary_emb
    hidden = model.model(input_ids=x, use_cache=False).last_hidden_state
    known = mtp.join(embed(x[:, 1:]), hidden[:, :-1])
    drafts = []
    for last in range(len(ids) - 1, x.shape[1] - 1):
        slots, rows = known[:, : last + 1], []
        for _ in range(MTP_DEPTH):
            n = slots.shape[1]
            mask = torch.full((n, n), float("-inf"), device=x.device).triu(1)[None, None]
            rope = rotary(slots, position_ids=mtp.positions(n, x.device))
            output = mtp.run(slots, mask, rope)[:, -1:]
            logits = model.lm_head(mtp.output(output))[0, 0]
            rows.append(logits)
            slots = torch.cat([slots, mtp.join(embed(logits.argmax().view(1, 1)), output)], 1)
        drafts.append(rows)
    return drafts


def cases(model, mtp, tokenizer, questions):
    """Reference cases for the engine's tests; the training README lists the fields."""
    stop = stop_ids(tokenizer)
    return [_case(model, mtp, tokenizer, q, stop) for q in questions]


def _case(model, mtp, tokenizer, question, stop):
    text = prompt(question["question"])
    ids = tokenizer.encode(text).ids
    case = {
        "family": question["family"],
        "question": question["question"],
        "expected": question["answer"],
        "text": text,
        **token_case(model, mtp, ids, CASE_TOKENS, stop),
    }
    case["greedy_text"] = tokenizer.decode(case["greedy_tokens"], skip_special_tokens=True)
    return case


@torch.no_grad()
def token_case(model, mtp, ids, limit, stop):
    """A reference case for a prompt given as ids: the greedy answer, and logits, hidden states and drafts."""
    out = greedy(model, ids, limit, stop)
    result = model(input_ids=torch.tensor([ids + out], device=model.device), output_hidden_states=True)
    logits = result.logits[0].float()
    best = logits[len(ids) - 1 : -1].topk(2).values
    case = {
        "prompt_tokens": ids,
        "greedy_tokens": out,
        "smallest_gap": round(float((best[:, 0] - best[:, 1]).min()), 5),
        "top_logits": [_top(row, 8) for row in logits],
        "logsumexp": [round(float(x), 5) for x in logits.logsumexp(-1)],
        "layer_sums": [
            [round(float(h[0, -1].float().sum()), 5), round(float(h[0, -1].float().norm()), 5)]
            for h in result.hidden_states
        ],
    }
    if mtp is not None:
        case["mtp_drafts"] = [[_top(row, 4) for row in rows] for rows in mtp_drafts(model, mtp, ids, out)]
    return case


def _top(logits, k):
    values, ids = logits.float().topk(k)
    return [[int(i), round(float(v), 5)] for i, v in zip(ids, values)]


def accuracy(model, tokenizer, questions):
    """Share of exactly right answers in each family."""
    stop = stop_ids(tokenizer)
    right, asked = {}, {}
    for q in questions:
        out = greedy(model, tokenizer.encode(prompt(q["question"])).ids, ANSWER_TOKENS, stop)
        answer = tokenizer.decode(out, skip_special_tokens=True)
        asked[q["family"]] = asked.get(q["family"], 0) + 1
        right[q["family"]] = right.get(q["family"], 0) + (answer == q["answer"])
    return {family: round(right[family] / asked[family], 3) for family in asked}


def acceptance(model, mtp, tokenizer, questions):
    """How often the first 1, 2, 3 drafted tokens all equal the greedy continuation, and the mean accepted per step."""
    stop = stop_ids(tokenizer)
    hits, steps = [0] * MTP_DEPTH, 0
    for q in questions:
        ids = tokenizer.encode(prompt(q["question"])).ids
        out = greedy(model, ids, ANSWER_TOKENS, stop)
        for i, rows in enumerate(mtp_drafts(model, mtp, ids, out)):
            follows = out[i + 1 : i + 1 + MTP_DEPTH]
            if not follows:
                continue
            steps += 1
            for depth, token in enumerate(follows):
                if int(rows[depth].argmax()) != token:
                    break
                hits[depth] += 1
    steps = max(1, steps)
    return {"by_depth": [round(h / steps, 3) for h in hits], "mean_accepted": round(sum(hits) / steps, 3)}
