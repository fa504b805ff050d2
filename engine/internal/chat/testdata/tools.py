#!/usr/bin/env python3
"""Writes tools.json: chats with tools, and the prompts that Hugging Face's transformers makes of them with published chat templates.

    python3 tools.py TEMPLATES > tools.json    (pip install transformers)

TEMPLATES is the folder templates of INGOT_VECTORS; templates of families/NAME.json are in this folder. A chat is written as a client of OpenAI's
API sends it. transformers gets arguments as objects, texts instead of null, and ids of nine letters and digits for Mistral. To templates that
render one call of a message, it gets each call in a message of its own, with its result after it. To templates that do not render calls
(Granite 3, Phi-4-mini), it gets them in the content. For templates whose licence asks for more than a copyright notice, tools.json has the
SHA-256 of the prompt.
"""

import copy
import datetime
import hashlib
import json
import pathlib
import sys

import transformers.utils.chat_template_utils as chat_templates

DATE = "2024-07-26"
HERMES, GLM45, GLM47, CODER = "Hermes", "GLM-4.5", "GLM-4.7", "Qwen3-Coder"

# template: format, one call a message, short ids, free licence, variables
TEMPLATES = {
    "GLM-4.6": (GLM45, False, False, True, {}),
    "GLM-4.7-Flash": (GLM47, False, False, True, {}),
    "GLM-5.2": (GLM47, False, False, True, {}),
    "Qwen-Qwen2.5-7B-Instruct": (HERMES, False, False, True, {}),
    "Qwen-Qwen3-0.6B": (HERMES, False, False, True, {}),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": (HERMES, False, False, False, {}),
    "Qwen3.5-4B": (CODER, False, False, True, {}),
    "google-gemma-4-31B-it": ("Gemma 4", False, False, True, {}),
    "openai-gpt-oss-120b": ("gpt-oss (harmony)", True, False, True, {}),
    "mistralai-Mistral-Nemo-Instruct-2407": ("Mistral, as a list", False, True, True, {}),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("Mistral", False, True, True, {}),
    "unsloth-mistral-Devstral-Small-2507": ("Mistral", False, True, True, {}),
    "meta-llama-Llama-3.1-8B-Instruct": ("Llama 3", True, False, False, {}),
    "meta-llama-Llama-3.2-3B-Instruct": ("Llama 3", True, False, False, {}),
    "ibm-granite-granite-3.3-2B-Instruct": ("Granite 3", False, False, True, {}),
    "families/phi4-mini": ("Phi-4-mini", False, False, True, {}),
}
MARKS = {"Granite 3": ("<|tool_call|>", ""), "Phi-4-mini": ("<|tool_call|>", "<|/tool_call|>")}  # around a list of calls in the content

WEATHER = {
    "name": "get_weather",
    "description": "Weather <today> & tomorrow, in \"°C\"",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "such as Zürich"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    },
}
NOTE = {
    "name": "save_note",
    "description": "Saves a note.",
    "parameters": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "the text"}, "tags": {"type": "array", "items": {"type": "string"}, "description": "words"},
            "urgent": {"type": "boolean", "description": "now"}, "owner": {"type": "object", "description": "who"},
        },
        "required": ["text", "tags"],
    },
}


def use(identifier, name, **arguments):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def result(identifier, content):
    return {"role": "tool", "tool_call_id": identifier, "content": content}


ASK = {"role": "user", "content": "How is the weather in Zürich?"}
A, B = "call_9fQ0pXwZ", "Ab3dEf9h2"
CALL = [use(A, "get_weather", city="Zürich <\"Höngg\">\n", days=2)]
NOTES = use(B, "save_note", text="cold\n\n  & wet", tags=["a", "b, c"], urgent=False, owner={"name": "Ö", "age": 40.5, "boss": None})
CASES = {
    "question": [{"role": "system", "content": "Be brief."}, ASK],
    "one call": [ASK, {"role": "assistant", "content": None, "tool_calls": CALL}, result(A, '{"t": 21}')],
    "two calls": [ASK, {"role": "assistant", "content": None, "tool_calls": [*CALL, NOTES]}, result(A, "21 °C"), result(B, "saved")],
    "two turns": [
        ASK, {"role": "assistant", "content": None, "tool_calls": CALL}, result(A, "21"), {"role": "assistant", "content": "It is 21 °C."},
        {"role": "user", "content": "Note it."}, {"role": "assistant", "tool_calls": [NOTES]}, result(B, "saved"),
    ],
}


class Now(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(DATE + "T12:00:00")


chat_templates.datetime = Now
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def short(identifier):
    if len(identifier) == 9 and all(c in DIGITS for c in identifier):
        return identifier
    return "".join(DIGITS[b % 62] for b in hashlib.sha256(identifier.encode()).digest())[:9]


def prepare(messages, single, short_ids):
    out = []
    for m in copy.deepcopy(messages):
        for c in m.get("tool_calls", []):
            c["function"]["arguments"] = json.loads(c["function"]["arguments"])
            c["id"] = short(c["id"]) if short_ids else c["id"]
        if "tool_call_id" in m and short_ids:
            m["tool_call_id"] = short(m["tool_call_id"])
        if "tool_calls" in m and m.get("content") is None:
            m["content"] = ""
        out.append(m)
    if not single:
        return out
    apart = []
    for m in out:
        if len(m.get("tool_calls", [])) < 2:
            apart.append(m)
            continue
        for c in m["tool_calls"]:
            apart.append({**m, "tool_calls": [c]})
            apart += [r for r in out if r.get("tool_call_id") == c["id"]]
    seen, messages = [], []
    for m in apart:
        if m["role"] != "tool" or m["tool_call_id"] not in seen:
            messages.append(m)
            seen += [m.get("tool_call_id")]
    return messages


def as_text(messages, tools, form):
    """Messages for a template that does not render calls."""
    first, last = MARKS[form]
    out = []
    for m in messages:
        if m["role"] == "tool":
            m = {**m, "role": "tool_response"}
        elif "tool_calls" in m:
            calls = [c["function"] for c in m["tool_calls"]]
            m = {"role": "assistant", "content": m["content"] + first + json.dumps(calls, ensure_ascii=False) + last}
        out.append(m)
    if form == "Phi-4-mini":
        if out[0]["role"] != "system":
            out.insert(0, {"role": "system", "content": "You are a helpful assistant with some tools."})
        out[0]["tools"] = json.dumps([t["function"] for t in tools], ensure_ascii=False)
    return out


def read(name):
    if name.startswith("families/"):
        return json.loads((pathlib.Path(__file__).parent / (name + ".json")).read_text())["template"]
    return (pathlib.Path(sys.argv[1]) / (name + ".jinja")).read_text()


def main():
    tools = [{"type": "function", "function": f} for f in (WEATHER, NOTE)]
    templates = {}
    for name, (form, single, short_ids, free, variables) in TEMPLATES.items():
        source = read(name)
        prompts = {}
        for case, messages in CASES.items():
            messages = prepare(messages, single, short_ids)
            if form in MARKS:
                messages = as_text(messages, tools, form)
            (text,), _ = chat_templates.render_jinja_template(
                conversations=[messages], tools=tools, chat_template=source, add_generation_prompt=True,
                bos_token="<s>", eos_token="</s>", **variables)
            prompts[case] = text if free else "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        templates[name] = {"format": form, "prompts": prompts}
    json.dump({"date": DATE, "tools": tools, "cases": CASES, "templates": templates}, sys.stdout, indent=1, ensure_ascii=False)
    print()


main()
