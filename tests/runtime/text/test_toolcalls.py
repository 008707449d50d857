"""Tool calls in streamed text: for every split the events add up to the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.chat import ChatEvent, ContentDelta, ToolCallArguments, ToolCallStart
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.toolcalls import (
    DEEPSEEK,
    DEEPSEEK31,
    HERMES,
    LLAMA3,
    MISTRAL,
    MISTRAL_ARGS,
    PYTHONIC,
    TAGS,
    TOOL_FORMATS,
    ToolCallParser,
    ToolFormat,
    tool_format_for,
)
from tests.runtime.text import templates

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
Folded = tuple[str, list[tuple[str, str]]]
A = '{"city": "Oslo", "n": [1, {"x": "}]{\\"\\\\"}]}'
HERMES_A = f'<tool_call>\n{{"name": "weather", "arguments": {A}}}\n</tool_call>'
HERMES_B = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
FENCED_A = (
    f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{A}\n```<｜tool▁call▁end｜>"
)
FENCED_B = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>"
BARE_A = f"<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{A}<｜tool▁call▁end｜>"
BARE_B = "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
TAGGED_A = (
    '<tool_call>\n<function=weather>\n<parameter=city>\nOslo "C"\n\n\n</parameter>\n'
    "<parameter=n>\n[1, 2]\n</parameter>\n</function>\n</tool_call>"
)
TAGGED_B = "<tool_call>\n<function=now>\n</function>\n</tool_call>"

CASES: list[tuple[ToolFormat, str, Folded]] = [
    (HERMES, "", ("", [])),
    (HERMES, "plain <b>text</b> <tool", ("plain <b>text</b> <tool", [])),
    (HERMES, HERMES_A, ("", [("weather", A)])),
    (HERMES, f"Let me see.\n{HERMES_A}", ("Let me see.", [("weather", A)])),
    (HERMES, f"Two.\n\n{HERMES_A}\n{HERMES_B}", ("Two.\n", [("weather", A), ("now", "{}")])),
    (HERMES, f"{HERMES_A} \n \n{HERMES_B}", ("", [("weather", A), ("now", "{}")])),
    (HERMES, f"{HERMES_A}\nand text", ("\nand text", [("weather", A)])),
    (HERMES, f"{HERMES_A}\n", ("", [("weather", A)])),
    (
        HERMES,
        '<tool_call>{ "name" : "f" ,\n"arguments":{"a":1}\n}</tool_call>',
        ("", [("f", '{"a":1}')]),
    ),
    (HERMES, '<tool_call>\n{"name": "f", "parameters": {}}\n</tool_call>', ("", [("f", "{}")])),
    (
        HERMES,
        '<tool_call>\n{"name": "a\\u00e9\\n\\"b", "arguments": {}}\n</tool_call>',
        ("", [('aé\n"b', "{}")]),
    ),
    # Not calls: shown as they were written.
    (HERMES, "<tool_call>no json", ("<tool_call>no json", [])),
    (HERMES, "x\n<tool_call>\n{}", ("x\n<tool_call>\n{}", [])),
    (
        HERMES,
        '<tool_call>{"name": "f", "arguments": "str"}',
        ('<tool_call>{"name": "f", "arguments": "str"}', []),
    ),
    (HERMES, f"<tool_call>oh\n{HERMES_B}", ("<tool_call>oh", [("now", "{}")])),
    (HERMES, f"<tool_call>{HERMES_B}", ("<tool_call>", [("now", "{}")])),
    (HERMES, '<tool_call>\n{"name": "f', ('<tool_call>\n{"name": "f', [])),
    (HERMES, '<tool_call>\n{"name": "\\q', ('<tool_call>\n{"name": "\\q', [])),
    (HERMES, '<tool_call>\n{"name": "\\ud800', ('<tool_call>\n{"name": "\\ud800', [])),
    (HERMES, "<tool_call>" + " " * 80, ("<tool_call>" + " " * 80, [])),
    # Behind whole arguments, what does not close the call is content.
    (
        HERMES,
        '<tool_call>{"name": "f", "arguments": {}, "x": 1}</tool_call>',
        (', "x": 1}</tool_call>', [("f", "{}")]),
    ),
    (HERMES, '<tool_call>{"name": "f", "arguments": {}}\n</tool', ("", [("f", "{}")])),
    # Cut off inside the arguments.
    (HERMES, '<tool_call>{"name": "f", "arguments": {"a": "b', ("", [("f", '{"a": "b')])),
    (LLAMA3, f'{{"name": "weather", "parameters": {A}}}', ("", [("weather", A)])),
    (LLAMA3, '{"name": "f", "parameters": {}} \n', ("", [("f", "{}")])),
    (LLAMA3, '{"name": "Bob", "age": 3}', ('{"name": "Bob", "age": 3}', [])),
    (LLAMA3, 'so {"name": "f", "parameters": {}}', ('so {"name": "f", "parameters": {}}', [])),
    (LLAMA3, '{"na', ('{"na', [])),
    (
        MISTRAL,
        f'[TOOL_CALLS] [{{"name": "weather", "arguments": {A}}}]',
        ("", [("weather", A)]),
    ),
    (
        MISTRAL,
        'ok[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abcdefghi"}, '
        '{"name": "g", "arguments": {"a": []}}] ',
        ("ok ", [("f", "{}"), ("g", '{"a": []}')]),
    ),
    (MISTRAL, "[TOOL_CALLS] nothing", ("[TOOL_CALLS] nothing", [])),
    (MISTRAL_ARGS, f"[TOOL_CALLS]weather[ARGS]{A}", ("", [("weather", A)])),
    (
        MISTRAL_ARGS,
        'ok[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{}[TOOL_CALLS]g.h[ARGS] {"a": []} so',
        ("ok so", [("f", "{}"), ("g.h", '{"a": []}')]),
    ),
    (MISTRAL_ARGS, "[TOOL_CALLS]two\nlines[ARGS]{}", ("[TOOL_CALLS]two\nlines[ARGS]{}", [])),
    (MISTRAL_ARGS, "[TOOL_CALLS]f[CALL_ID]abc", ("[TOOL_CALLS]f[CALL_ID]abc", [])),
    (MISTRAL_ARGS, '[TOOL_CALLS]f[ARGS]{"a": "b', ("", [("f", '{"a": "b')])),
    (
        MISTRAL,
        '[TOOL_CALLS] [{"name": "f", "arguments": {}}; x',
        ("; x", [("f", "{}")]),
    ),
    (DEEPSEEK, f"{BEGIN}{FENCED_A}{END}", ("", [("weather", A)])),
    (
        DEEPSEEK,
        f"Let me see.{BEGIN}{FENCED_A}\n{FENCED_B}{END} so",
        ("Let me see. so", [("weather", A), ("now", "{}")]),
    ),
    (DEEPSEEK, f"{BEGIN}\n{FENCED_B}{FENCED_B}\n{END}", ("", [("now", "{}"), ("now", "{}")])),
    (DEEPSEEK, f"{BEGIN}{FENCED_B}", ("", [("now", "{}")])),
    (DEEPSEEK, f"{BEGIN}{FENCED_B} so", (" so", [("now", "{}")])),
    (DEEPSEEK, f"{BEGIN}{FENCED_A[:45]}", (f"{BEGIN}{FENCED_A[:45]}", [])),
    (DEEPSEEK, f"{BEGIN}{FENCED_A.partition(A)[0]}{A[:16]}", ("", [("weather", A[:16])])),
    (DEEPSEEK, f"{BEGIN}{BARE_A}{END}", (f"{BEGIN}{BARE_A}{END}", [])),
    (DEEPSEEK, f"{BEGIN}nothing", (f"{BEGIN}nothing", [])),
    (DEEPSEEK, "x <｜tool▁calls", ("x <｜tool▁calls", [])),
    (DEEPSEEK31, f"{BEGIN}{BARE_A}{END}", ("", [("weather", A)])),
    (
        DEEPSEEK31,
        f"Let me see.{BEGIN}{BARE_A}{BARE_B}{END}",
        ("Let me see.", [("weather", A), ("now", "{}")]),
    ),
    (DEEPSEEK31, f"{BEGIN}{BARE_A.partition(A)[0]}{A[:3]}", ("", [("weather", A[:3])])),
    (DEEPSEEK31, f"{BEGIN}{FENCED_A}{END}", (f"{BEGIN}{FENCED_A}{END}", [])),
    (PYTHONIC, "[now()]", ("", [("now", "{}")])),
    (
        PYTHONIC,
        '[weather(city="Oslo, \\"C\\" (N)", n=[1, {"x": "]"}]), now( )]\n',
        ("\n", [("weather", '{"city": "Oslo, \\"C\\" (N)", "n": [1, {"x": "]"}]}'), ("now", "{}")]),
    ),
    (
        PYTHONIC,
        " [ f( a = 'it\\'s\\x41' , b=True,c=None, d=(1, 2.5), e={'k': False}, g=x ) ]",
        (
            "",
            [
                (
                    "f",
                    '{"a": "it\'sA", "b": true, "c": null, "d": [1, 2.5], "e": {"k": false}, '
                    '"g": "x"}',
                )
            ],
        ),
    ),
    (PYTHONIC, "[f(a=1,)]", ("", [("f", '{"a": 1}')])),
    (PYTHONIC, "[1] says so", ("[1] says so", [])),
    (PYTHONIC, "[link](https://a.b/c?d=e)", ("[link](https://a.b/c?d=e)", [])),
    (PYTHONIC, "[f(x) for x in y]", ("[f(x) for x in y]", [])),
    (PYTHONIC, "see [f(a=1)]", ("see [f(a=1)]", [])),
    (PYTHONIC, "[f(a", ("[f(a", [])),
    (PYTHONIC, "[f(a=1, b='x", ("", [("f", '{"a": 1, "b": ')])),
    (PYTHONIC, "[f(a=1, 2), g()]", (", 2), g()]", [("f", '{"a": 1')])),
    (PYTHONIC, "[f()", ("", [("f", "{}")])),
    (PYTHONIC, f'{{"name": "weather", "parameters": {A}}}', ("", [("weather", A)])),
    (LLAMA3, "[now(), f(a='b')]", ("", [("now", "{}"), ("f", '{"a": "b"}')])),
    (TAGS, TAGGED_A, ("", [("weather", '{"city": "Oslo \\"C\\"\\n\\n", "n": [1, 2]}')])),
    (TAGS, f"Let me see.\n\n{TAGGED_B}\n{TAGGED_B}", ("Let me see.", [("now", "{}")] * 2)),
    (TAGS, f"Let me see.\n{TAGGED_B}", ("Let me see.\n", [("now", "{}")])),
    (
        TAGS,
        "<tool_call><function=f><parameter=city>x\ny</parameter><parameter=city>\n</parameter>"
        "</function></tool_call> so",
        (" so", [("f", '{"city": "x\\ny", "city": ""}')]),
    ),
    (
        TAGS,
        "<tool_call>\n<function=f>\n<parameter=a>\n7\n</parameter>\n<parameter=b>\nseven\n"
        "</parameter>\n<parameter=c>\nNaN\n</parameter>\n</function>\n</tool_call>",
        ("", [("f", '{"a": 7, "b": "seven", "c": "NaN"}')]),
    ),
    # The tag around the call is forgotten: the first one, or both.
    (TAGS, TAGGED_B.removeprefix("<tool_call>\n"), ("", [("now", "{}")])),
    (
        TAGS,
        f"So.\n\n{TAGGED_B[12:-13]}\n{TAGGED_B[12:]}\n{TAGGED_B}",
        ("So.", [("now", "{}")] * 3),
    ),
    (TAGS, f"{TAGGED_B[12:-13]} so", (" so", [("now", "{}")])),
    (TAGS, "<tool_call>oh <function=f", ("<tool_call>oh <function=f", [])),
    (TAGS, HERMES_A, (HERMES_A, [])),
    (TAGS, "<tool_call>\n<function=f", ("<tool_call>\n<function=f", [])),
    # Cut off, or turned into something else, inside the arguments.
    (TAGS, "<tool_call>\n<function=f>\n<param", ("", [("f", "")])),
    (TAGS, "<tool_call>\n<function=f>\n<parameter=a>\n[1, 2", ("", [("f", '{"a": ')])),
    (TAGS, f"{TAGGED_A.partition('C')[0]}", ("", [("weather", '{"city": "Oslo \\"')])),
    (TAGS, "<tool_call>\n<function=f>\nOslo\n</function>", ("\nOslo\n</function>", [("f", "")])),
]


def parse(tool_format: ToolFormat, pieces: Iterable[str]) -> list[ChatEvent]:
    parser = ToolCallParser(tool_format, parameters=dict.fromkeys(("f", "weather"), CITY))
    return [event for piece in pieces for event in parser.push(piece)] + parser.finish()


def fold(events: Sequence[ChatEvent]) -> Folded:
    """Add the events up; also checks that indexes rise and ids are unique."""
    content: list[str] = []
    calls: list[tuple[str, str]] = []
    ids: set[str] = set()
    for event in events:
        match event:
            case ContentDelta():
                assert event.text
                content.append(event.text)
            case ToolCallStart():
                assert event.index == len(calls)
                calls.append((event.name, ""))
                ids.add(event.id)
            case ToolCallArguments():
                assert event.index == len(calls) - 1
                name, before = calls[event.index]
                calls[event.index] = (name, before + event.text)
            case _:
                pytest.fail(f"unexpected event {event!r}")
    assert len(ids) == len(calls)
    return "".join(content), calls


@pytest.mark.parametrize(("tool_format", "text", "expected"), CASES)
def test_text_is_parsed_into_content_and_calls(
    tool_format: ToolFormat, text: str, expected: Folded
) -> None:
    assert fold(parse(tool_format, [text])) == expected


@pytest.mark.parametrize(("tool_format", "text", "expected"), CASES)
def test_splitting_the_text_anywhere_changes_nothing(
    tool_format: ToolFormat, text: str, expected: Folded
) -> None:
    """R43. Fault: the last brace, the first token or an empty object was lost."""
    assert fold(parse(tool_format, text)) == expected
    for cut in range(1, len(text)):
        assert fold(parse(tool_format, [text[:cut], text[cut:]])) == expected


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "<tool_call>",
            "</tool_call>",
            "\n",
            '{"name": "f", "arguments": ',
            "{}",
            "}",
            '{"a": "}"}',
            '{"name": "f", "parameters": {"a": 1}}',
            "[TOOL_CALLS]",
            " [",
            "]",
            ", ",
            "<tool",
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n",
            "<｜tool▁call▁begin｜>f<｜tool▁sep｜>",
            "\n```<｜tool▁call▁end｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁calls▁end｜>",
            "<tool_call>\n<function=f>\n",
            "<function=",
            "<parameter=city>\n",
            "<parameter=n>",
            "\n</parameter>",
            "</function>\n</tool_call>",
            "[f(",
            "city=",
            "'it\\'s'",
            ")",
            "True",
            "x",
        ]
    ),
    max_size=12,
)


@given(fragments=FRAGMENTS, data=st.data(), name=st.sampled_from(sorted(TOOL_FORMATS)))
@settings(max_examples=300, deadline=None)
def test_any_pieces_of_any_text_give_the_same(
    fragments: list[str], data: st.DataObject, name: str
) -> None:
    """R43."""
    tool_format = next(form for form in TOOL_FORMATS.values() if form.name == name)
    text = "".join(fragments)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    ends = [0, *cuts, len(text)]
    pieces = [text[start:end] for start, end in pairwise(ends)]
    assert fold(parse(tool_format, pieces)) == fold(parse(tool_format, [text]))


def test_a_call_is_announced_as_soon_as_its_name_is_known_and_arguments_stream() -> None:
    parser = ToolCallParser(HERMES, new_id=lambda: "id-1")
    assert parser.push('<tool_call>\n{"name": "f", "arguments": ') == []
    assert parser.push('{"a"') == [
        ToolCallStart(index=0, id="id-1", name="f"),
        ToolCallArguments(index=0, text='{"a"'),
    ]
    assert parser.push(": 1") == [ToolCallArguments(index=0, text=": 1")]
    assert parser.is_unfinished
    assert parser.push("}}\n</tool_call>") == [ToolCallArguments(index=0, text="}")]
    assert not parser.is_unfinished
    assert parser.finish() == []


def test_content_is_not_held_back_longer_than_it_must() -> None:
    parser = ToolCallParser(HERMES)
    assert parser.push("Hello <to") == [ContentDelta("Hello ")]
    assert parser.push("night>") == [ContentDelta("<tonight>")]


@pytest.mark.parametrize("tool_format", TOOL_FORMATS.values(), ids=lambda form: form.name)
def test_what_a_format_writes_is_what_the_parser_reads(tool_format: ToolFormat) -> None:
    odd = "odd.name-1" if tool_format is PYTHONIC else 'odd "name"'
    calls = [("weather", A), (odd, "{}")][: 2 if tool_format.allows_parallel else 1]
    assert fold(parse(tool_format, [tool_format.calls_text(calls)])) == ("", calls)


def test_random_ids_are_unique() -> None:
    """R44. Fault: the second of parallel calls had no id, or index 0 again."""
    text = "\n".join([HERMES_B] * 50)
    starts = [event for event in parse(HERMES, [text]) if isinstance(event, ToolCallStart)]
    assert len({start.id for start in starts}) == 50
    assert [start.index for start in starts] == list(range(50))


def test_the_format_follows_the_template(smollm2_template: ChatTemplate) -> None:
    assert tool_format_for(smollm2_template) is HERMES
    assert tool_format_for(ChatTemplate(templates.QWEN)) is HERMES
    assert tool_format_for(ChatTemplate(templates.LISTING)) is HERMES
    llama = templates.QWEN.replace("<tool_call>\\n", "").replace("\\n</tool_call>", "")
    assert tool_format_for(ChatTemplate(llama.replace('"arguments"', '"parameters"'))) is LLAMA3
    mistral = templates.QWEN.replace("<tool_call>\\n", "[TOOL_CALLS] [")
    assert tool_format_for(ChatTemplate(mistral)) is MISTRAL
    assert tool_format_for(ChatTemplate(mistral + "{#- [ARGS] #}")) is MISTRAL_ARGS
    assert tool_format_for(ChatTemplate(templates.R1)) is DEEPSEEK
    assert tool_format_for(ChatTemplate(templates.DISTILLED)) is DEEPSEEK
    assert tool_format_for(ChatTemplate(templates.V31)) is DEEPSEEK31
    assert tool_format_for(ChatTemplate(templates.CODER)) is TAGS
    for source in (templates.PYTHON, templates.PYTHON_QUOTED):
        assert tool_format_for(ChatTemplate(source)) is PYTHONIC
    native = (templates.R1, templates.V31, templates.CODER)
    assert all(ChatTemplate(source).traits.supports_tools for source in native)


FORBIDDEN = [
    (LLAMA3, '{"name":"delete_all","parameters":{"x":1}}'),
    (LLAMA3, '{ "name": "delete_all", "parameters": {}}'),
    (LLAMA3, '\n{"name": "delete_all", "parameters": {}}'),
    (LLAMA3, '{"name": "delete\\u005fall", "parameters": {}}'),
    (MISTRAL, '[TOOL_CALLS][{"name": "delete_all", "arguments": {}}]'),
    (MISTRAL, '[TOOL_CALLS]  [{"name": "delete_all", "arguments": {}}]'),
    (HERMES, '<tool_call> {"name": "delete_all", "arguments": {}}\n</tool_call>'),
    (DEEPSEEK, f"{BEGIN}{FENCED_A}{END}"),
    (DEEPSEEK31, f"{BEGIN}{BARE_A}{END}"),
    (TAGS, TAGGED_A),
    (TAGS, TAGGED_A.removeprefix("<tool_call>\n")),
    (PYTHONIC, '[delete_all(path="/")]'),
    (LLAMA3, '[delete_all(path="/")]'),
]


@pytest.mark.parametrize(("tool_format", "text"), FORBIDDEN)
@pytest.mark.parametrize("n_chars", [1, 7, 1000])
def test_a_call_of_a_tool_that_may_not_be_called_is_content(
    tool_format: ToolFormat, text: str, n_chars: int
) -> None:
    parser = ToolCallParser(tool_format, callable_names={"read"})
    events = [
        event
        for start in range(0, len(text), n_chars)
        for event in parser.push(text[start : start + n_chars])
    ]
    assert fold(events + parser.finish()) == (text, [])


def test_a_forbidden_call_behind_an_allowed_one_is_content() -> None:
    parser = ToolCallParser(MISTRAL, callable_names={"read"})
    allowed = '[TOOL_CALLS] [{"name": "read", "arguments": {}}'
    forbidden = ', {"name": "delete_all", "arguments": {}}]'
    assert fold(parser.push(allowed + forbidden) + parser.finish()) == (
        forbidden,
        [("read", "{}")],
    )
