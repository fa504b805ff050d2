"""Asks a server for answers in a given form, in the ways that a Python library offers.

    check.py URL LIBRARY

LIBRARY is openai, langchain, pydantic_ai or instructor. Each check needs an answer that the library
reads into its own types. The program prints a line per check, and exits with 1 if one failed. The
script run installs the libraries and calls it.
"""

import sys
from importlib.metadata import version
from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict, Field

server, library = sys.argv[1:]
url, model, limit = server + "/v1", "tiny", 400
# The bundled models answer this question with a JSON object, also without a schema.
question = "Extract the person as JSON: Priya lives in Helsinki and works as a pilot. Priya is 28 years old."
messages = [{"role": "user", "content": question}]
failed = 0


class Town(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=20)
    size: Literal["small", "large"]


class Person(BaseModel):
    """A person and where they live."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=20, description="The full name.")
    age: int = Field(ge=0, le=120)
    mood: Optional[Literal["happy", "sad"]]
    towns: list[Town] = Field(max_length=2)


class Anything(BaseModel):
    """Any JSON object."""

    model_config = ConfigDict(extra="allow")


def check(package, name, wanted, ask):
    global failed
    label = f"{package} {version(package)}: {name}"
    try:
        got = ask()
        if isinstance(got, dict):
            got = wanted.model_validate(got)
        assert isinstance(got, wanted), got
        print("ok", label)
    except Exception as error:  # noqa: BLE001: the other checks still run
        failed += 1
        print(f"FAILED {label}: {type(error).__name__}: {error}")


def raises(kind, ask, holds):
    """Returns a function that succeeds if ask raises an error of a kind for which holds is true."""

    def run():
        try:
            ask()
        except kind as error:
            assert holds(error), error
            return {}
        raise AssertionError("there was no error")

    return run


def check_openai():
    import openai

    chats = openai.OpenAI(base_url=url, api_key="any", max_retries=0).chat.completions

    def streamed():
        with chats.stream(model=model, messages=messages, response_format=Person, max_tokens=limit, temperature=0) as stream:
            return stream.get_final_completion().choices[0].message.parsed

    def parsed(tokens):
        return chats.parse(model=model, messages=messages, response_format=Person, max_tokens=tokens, temperature=0).choices[0].message.parsed

    def unsupported():
        schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}
        chats.create(model=model, messages=messages, response_format={"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}})

    check("openai", "parse with a class", Person, lambda: parsed(limit))
    check("openai", "stream with a class", Person, streamed)
    check("openai", "an answer that was cut", Anything, raises(openai.LengthFinishReasonError, lambda: parsed(2), lambda _: True))
    check("openai", "a schema that cannot be kept", Anything, raises(
        openai.BadRequestError, unsupported, lambda e: "/properties/a/uniqueItems" in e.message and e.param == "response_format.json_schema.schema"))


def check_langchain():
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=url, api_key="any", max_tokens=limit, temperature=0, max_retries=0)
    package = "langchain-openai"
    for name, form, options in (
        ("json_schema, strict", Person, {"method": "json_schema", "strict": True}),
        ("json_schema", Person, {"method": "json_schema"}),
        ("json_schema of a dictionary", Person.model_json_schema(), {"method": "json_schema"}),
    ):
        check(package, name, Person, lambda form=form, options=options: chat.with_structured_output(form, **options).invoke(question))
    check(package, "json_mode", Anything, lambda: chat.with_structured_output(None, method="json_mode").invoke(question))


def check_pydantic_ai():
    from pydantic_ai import Agent, NativeOutput, PromptedOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    chat = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="any"))
    for name, wanted, output in (
        ("NativeOutput, strict", Person, NativeOutput(Person, strict=True)),
        ("NativeOutput", Person, NativeOutput(Person)),
        ("PromptedOutput", Anything, PromptedOutput(Anything)),
    ):
        check("pydantic-ai-slim", name, wanted,
              lambda output=output: Agent(chat, output_type=output, model_settings={"max_tokens": limit, "temperature": 0}, retries=0).run_sync(question).output)


def check_instructor():
    import instructor
    import openai

    client = openai.OpenAI(base_url=url, api_key="any", max_retries=0)
    for mode, wanted in ((instructor.Mode.JSON_SCHEMA, Person), (instructor.Mode.JSON, Anything)):
        check("instructor", mode.value, wanted, lambda mode=mode, wanted=wanted: instructor.from_openai(client, mode=mode).chat.completions.create(
            model=model, messages=messages, response_model=wanted, max_tokens=limit, temperature=0, max_retries=0))


globals()["check_" + library]()
sys.exit(1 if failed else 0)
