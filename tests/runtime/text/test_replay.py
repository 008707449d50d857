"""What was generated under a grammar is rendered again byte for byte, and token for token.

Only then does the next turn's prompt extend the ids whose keys and values are cached.
"""

from __future__ import annotations

import json

import pytest

from agentkit_runtime.chat import ChatMessage, ChatRequest, ChatTool
from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.render import Renderer
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.toolcalls import ToolCallParser
from tests.runtime.text import templates
from tests.runtime.text.replaying import as_message, say

READ = ChatTool(
    name="read_lines",
    description="Reads lines of a file.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "first": {"type": "integer"},
            "options": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "marks": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path"],
    },
)
LIST = ChatTool(name="list_files", description="", parameters={})
REPLIES = [
    '<tool_call>\n{"name": "list_files", "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "read_lines", "arguments": {"path": "notes/a b.md", "first": 12}}\n'
    "</tool_call>",
    '<tool_call>\n{"name": "read_lines", "arguments": {"path": "ü \\"q\\" \\\\ \\n <b> 東京", '
    '"options": {"deep": true, "x": false}, "marks": ["}", "{", "</tool_call>"]}}\n</tool_call>',
    'I look first.\n<tool_call>\n{"name": "list_files", "arguments": {}}\n</tool_call>\n'
    '<tool_call>\n{"name": "read_lines", "arguments": {"path": "a"}}\n</tool_call>',
    "Just text, with <b>marks</b>\n\nand lines.",
]


@pytest.mark.parametrize("source", ["bundled", "with tools of its own"])
@pytest.mark.parametrize("reply", REPLIES)
def test_the_next_prompt_extends_the_cached_ids(
    smollm2: Tokenizer,
    smollm2_template: ChatTemplate,
    smollm2_compiler: GrammarCompiler,
    reply: str,
    source: str,
) -> None:
    template = smollm2_template if source == "bundled" else ChatTemplate(templates.QWEN)
    renderer = Renderer(smollm2, template)
    asked = ChatRequest(
        messages=(
            ChatMessage(role="system", content="Rules."),
            ChatMessage(role="user", content="What is in the file?"),
        ),
        tools=(LIST, READ),
        parallel_tool_calls=True,
    )
    prompt = renderer.render(asked)
    grammar = smollm2_compiler.compile_for(asked, renderer.tool_format)
    assert grammar is not None
    generated = say(smollm2, grammar, reply)

    parser = ToolCallParser(renderer.tool_format)
    answer = as_message(parser.push(smollm2.decode(generated)) + parser.finish())
    results = tuple(
        ChatMessage(role="tool", content="ok", tool_call_id=call.id) for call in answer.tool_calls
    )
    following = ChatMessage(role="user", content="And now?")
    later = renderer.render(
        ChatRequest(messages=(*asked.messages, answer, *results, following), tools=asked.tools)
    )

    assert later.text.startswith(prompt.text + reply + "<|im_end|>")
    cached = (*prompt.ids, *generated)
    assert later.ids[: len(cached)] == cached
    assert smollm2.decode(later.ids[len(cached) :][:1], skip_special=False) == "<|im_end|>"


def test_json_answers_are_replayed_as_they_were(
    smollm2: Tokenizer, smollm2_renderer: Renderer, smollm2_compiler: GrammarCompiler
) -> None:
    schema = {
        "type": "object",
        "properties": {"lines": {"type": "array", "items": {"type": "integer"}}},
        "required": ["lines"],
    }
    question = ChatMessage(role="user", content="Which lines?")
    asked = ChatRequest(messages=(question,), response_schema=schema)
    prompt = smollm2_renderer.render(asked)
    grammar = smollm2_compiler.compile_for(asked, smollm2_renderer.tool_format)
    assert grammar is not None
    reply = json.dumps({"lines": [3, 14, 15]})
    generated = say(smollm2, grammar, reply)
    answer = ChatMessage(role="assistant", content=reply)
    later = smollm2_renderer.render(ChatRequest(messages=(question, answer, question)))
    cached = (*prompt.ids, *generated)
    assert later.ids[: len(cached)] == cached
