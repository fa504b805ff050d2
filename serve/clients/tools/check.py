"""Asks a server for tool calls, in the ways that a Python library offers.

    check.py URL LIBRARY

LIBRARY is openai, langchain, pydantic_ai or instructor. Each check needs calls whose arguments the
library reads into its own types. The program prints a line per check, and exits with 1 if one
failed. The script run installs the libraries and calls it.
"""

import sys
from importlib.metadata import version
from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict, Field

server, library = sys.argv[1:]
url, model, question, limit = server + "/v1", "tiny", "How is the weather in Turku?", 400
messages = [{"role": "user", "content": question}]
failed = 0


class Hour(BaseModel):
    model_config = ConfigDict(extra="forbid")
    hour: int = Field(ge=0, le=23)
    rain: bool


class Weather(BaseModel):
    """The weather of a city."""

    model_config = ConfigDict(extra="forbid")
    city: str = Field(max_length=12, description="such as Turku")
    unit: Optional[Literal["C", "F"]]
    hours: list[Hour] = Field(max_length=2)


def check(package, name, ask, wanted=Weather):
    global failed
    label = f"{package} {version(package)}: {name}"
    try:
        got = ask()
        assert isinstance(got, wanted), got
        print("ok", label)
    except Exception as error:  # noqa: BLE001: the other checks still run
        failed += 1
        print(f"FAILED {label}: {type(error).__name__}: {error}")


def check_openai():
    import openai

    chats = openai.OpenAI(base_url=url, api_key="any", max_retries=0).chat.completions
    tools = [openai.pydantic_function_tool(Weather, name="get_weather")]
    asked = {"model": model, "messages": messages, "tools": tools, "max_tokens": limit}

    def parsed(choice):
        message = chats.parse(**asked, tool_choice=choice, parallel_tool_calls=False).choices[0].message
        assert message.content is None and len(message.tool_calls) == 1
        return message.tool_calls[0].function.parsed_arguments

    def streamed():
        with chats.stream(**asked, tool_choice="required", parallel_tool_calls=False) as stream:
            parts = sum(event.type == "tool_calls.function.arguments.delta" for event in stream)
            assert parts > 3, parts
            return stream.get_final_completion().choices[0].message.tool_calls[0].function.parsed_arguments

    def continued():
        first = chats.create(**asked, tool_choice="required", parallel_tool_calls=False, seed=1).choices[0].message
        result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "12 °C"}
        second = chats.create(model=model, messages=[*messages, first, result], tools=tools, max_tokens=8)
        assert second.choices[0].message.content or second.choices[0].message.tool_calls
        return Weather.model_validate_json(first.tool_calls[0].function.arguments)

    check("openai", "parse, required", lambda: parsed("required"))
    check("openai", "parse, a named function", lambda: parsed({"type": "function", "function": {"name": "get_weather"}}))
    check("openai", "stream", streamed)
    check("openai", "a chat continues after a call", continued)


def check_langchain():
    from langchain_core.messages import AIMessage
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=url, api_key="any", max_tokens=limit, max_retries=0)
    package = "langchain-openai"

    def called(choice):
        (call,) = chat.bind_tools([Weather], tool_choice=choice, parallel_tool_calls=False).invoke(question).tool_calls
        return Weather.model_validate(call["args"])

    def streamed():
        whole = None
        for part in chat.bind_tools([Weather], tool_choice="required", parallel_tool_calls=False).stream(question):
            whole = part if whole is None else whole + part
        (call,) = whole.tool_calls
        return Weather.model_validate(call["args"])

    check(package, "with_structured_output, function_calling", lambda: chat.with_structured_output(Weather, method="function_calling").invoke(question))
    check(package, "bind_tools, required", lambda: called("required"))
    check(package, "bind_tools, a named function", lambda: called("Weather"))
    check(package, "bind_tools, in a stream", streamed)
    check(package, "bind_tools, auto", lambda: chat.bind_tools([Weather]).bind(max_tokens=8).invoke(question), AIMessage)


def check_pydantic_ai():
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    chat = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="any"))
    settings = {"max_tokens": limit}
    for name, output in (("final_result", Weather), ("ToolOutput, strict", ToolOutput(Weather, strict=True))):
        check("pydantic-ai-slim", name, lambda output=output: Agent(chat, output_type=output, model_settings=settings).run_sync(question).output)

    def used():
        ran = []
        agent = Agent(chat, output_type=ToolOutput(Weather), model_settings=settings)

        @agent.tool_plain
        def get_city(hint: Literal["a", "b"]) -> str:
            ran.append(hint)
            return "Turku"

        return agent.run_sync(question).output

    check("pydantic-ai-slim", "a tool and final_result", used)


def check_instructor():
    import instructor
    import openai

    plain = openai.OpenAI(base_url=url, api_key="any", max_retries=0)
    for name, mode in (("TOOLS", instructor.Mode.TOOLS), ("TOOLS_STRICT", instructor.Mode.TOOLS_STRICT)):
        chats = instructor.from_openai(plain, mode=mode).chat.completions
        check("instructor", name, lambda chats=chats: chats.create(
            model=model, messages=messages, response_model=Weather, max_tokens=limit, max_retries=0))


{"openai": check_openai, "langchain": check_langchain, "pydantic_ai": check_pydantic_ai, "instructor": check_instructor}[library]()
sys.exit(failed > 0)
