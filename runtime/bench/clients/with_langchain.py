"""A session of LangChain: a bound tool and its result, an answer in a form, a stream."""

# mypy: ignore-errors
# Its packages are in an environment of their own.

from __future__ import annotations

import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field


class Trip(BaseModel):
    """A trip."""

    city: str = Field(max_length=20)
    days: int = Field(ge=1, le=9)


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


def session(url: str, by_responses: bool) -> None:
    """Raise when something is not as it should be."""
    model = ChatOpenAI(
        model="smollm2", base_url=url, api_key="none", max_tokens=60, use_responses_api=by_responses
    )
    messages = [HumanMessage("What is the weather in Oslo?")]
    asked = model.bind_tools([weather], tool_choice="any").invoke(messages)
    assert asked.tool_calls, asked
    call = asked.tool_calls[0]
    messages += [asked, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
    said = model.bind_tools([weather]).invoke(messages)
    cached = said.usage_metadata["input_token_details"]["cache_read"]
    trip = model.with_structured_output(Trip, method="json_schema").invoke("Three days in Oslo.")
    assert isinstance(trip, Trip), trip
    pieces = [piece.text for piece in model.stream("Say hello.")]
    assert "".join(pieces)
    said = f"tool: {call['args']}; cached after it: {cached}; form: {trip!r}; {len(pieces)} pieces"
    sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    for by_responses in (False, True):
        session(sys.argv[1], by_responses)
