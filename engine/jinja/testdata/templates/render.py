#!/usr/bin/env python3
"""Writes cases.json and expected.json: the chat templates in this folder, rendered by Python's jinja2, set up as in Hugging Face
transformers. The templates were written for this project. They use the constructs of published templates.

    python3 render.py        (Debian: python3-jinja2)
"""

import datetime
import json
import pathlib
import sys

import jinja2

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import conformance  # noqa: E402

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Forecast for a <city> & a day",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "such as \"Zürich\""},
                "days": {"type": "array", "items": {"type": "integer"}, "default": 1},
                "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
                "place": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": ["number", "null"]}}, "required": ["x"]},
            },
            "required": ["city", "unit"],
        },
    },
}
NOW = {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}, "required": []}}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, id="abcdef123"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "  You are a bot.\n"}
ASKED = [user("Weather?"), assistant("", tool_calls=[call("weather", {"city": "Zürich <b>", "days": [1, 2], "unit": "celsius"})]),
         {"role": "tool", "tool_call_id": "abcdef123", "name": "weather", "content": "{\"t\": 21.5}"}]
CASES = {
    "one": {"messages": [user("Hi")]},
    "system": {"messages": [SYSTEM, user("Hi  there"), assistant("Hello!\n"), user("1+1?")]},
    "ended": {"messages": [user("Hi"), assistant("  Hello <|you|>!  ")], "add_generation_prompt": False},
    "tools": {"messages": [SYSTEM, *ASKED], "tools": [WEATHER, NOW]},
    "answered": {"messages": [*ASKED, assistant("Warm, 21.5 °C"), user("And now?")], "tools": [NOW]},
    "calls": {"messages": [user("Both"), assistant("On it.", tool_calls=[call("now", {}), call("weather", {"city": "Bern"}, "x")])],
              "tools": [NOW]},
    "thought": {"messages": [user("Hm"), assistant("<think>\nlet me see\n</think>\n\nYes."), user("Why?"),
                             assistant("So.", reasoning_content="\nbecause\n")], "add_generation_prompt": False},
    "quiet": {"messages": [user("Hi")], "enable_thinking": False, "reasoning_effort": "low"},
    "parts": {"messages": [user([{"type": "text", "text": "one"}, {"type": "text", "text": " two"}])]},
    "order": {"messages": [user("a"), user("b")]},
    "orphan": {"messages": [{"role": "tool", "tool_call_id": "abcdef123", "content": "21"}]},
    "nothing": {"messages": []},
}


def main():
    env = conformance.environment()
    env.globals["strftime_now"] = lambda format: datetime.datetime(2026, 1, 2).strftime(format)
    cases = {name: {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **c} for name, c in CASES.items()}
    expected = {}
    for path in sorted(HERE.glob("*.jinja")):
        template = env.from_string(path.read_text())
        expected[path.name] = {name: render(template, context) for name, context in cases.items()}
    for name, value in {"cases.json": cases, "expected.json": expected}.items():
        (HERE / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def render(template, context):
    try:
        return {"out": template.render(**context)}
    except (jinja2.exceptions.TemplateError, TypeError) as err:
        return {"err": f"{type(err).__name__}: {err}"}


if __name__ == "__main__":
    main()
