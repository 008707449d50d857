"""The page about served agents says what is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mcp import Client

PAGE = Path(__file__).parents[3] / "docs" / "mcp-serving.md"


async def test_the_programs_of_the_page_run() -> None:
    clerk, desk = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(clerk, names)
    assert names["Clerk"].tools == (names["DESK"],)
    exec(desk, names)
    async with Client(names["server"], read_timeout_seconds=30) as one:
        (ask,) = (await one.list_tools()).tools
        assert ask.name == "ask_desk"
        result = await one.call_tool("ask_desk", {"prompt": "How much is 5 dollars?"})
    assert getattr(result.content[0], "text", None) == "4.50 EUR."
