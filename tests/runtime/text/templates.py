"""Chat templates in the manner of well-known families, written for these tests."""

from __future__ import annotations

QWEN = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- '# Tools\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {%- if not loop.first or message.content %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem is undefined or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""Tools, calls and results of its own; system messages anywhere."""

ALTERNATING = """\
{%- for message in messages %}
    {%- if message.role == 'system' %}{{ raise_exception('no system role') }}{%- endif %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {%- if message.role == 'user' %}{{- '<s>[INST] ' + message.content + ' [/INST]' }}
    {%- else %}{{- ' ' + message.content + '</s>' }}{%- endif %}
{%- endfor %}
"""
"""No system role, strict alternation, no tools."""

FRONT_SYSTEM = """\
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content %}{%- set rest = messages[1:] %}
{%- else %}
    {%- set system = 'default' %}{%- set rest = messages %}
{%- endif %}
{{- '<|im_start|>' + system + '<|im_end|>' }}
{%- for message in rest if message.role != 'system' %}
    {{- '<|im_start|>' + message.role + ':' + message.content + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant:' }}{%- endif %}
"""
"""Drops system messages that are not in front."""

LAST_USER = """\
{%- for message in messages %}
    {{- message.role + ':' + message.content }}
    {%- if loop.last %}{{- ' (now)' }}{%- endif %}
{%- endfor %}
"""
"""Decorates the last message, so that appending moves the prefix."""

REFORMATTING = """\
{%- for tool in tools or [] %}{{- tool | tojson }}{%- endfor %}
{%- for message in messages %}
    {{- message.role + ':' + message.content }}
    {%- for call in message.tool_calls or [] %}
        {{- (call.function.arguments | tojson).replace(' ', '') }}
    {%- endfor %}
{%- endfor %}
"""
"""Knows tools, but does not replay a call's arguments as they were."""

CODER = """\
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}
{%- for tool in tools or [] %}
    {{- '\\n<function>\\n<name>' ~ tool.function.name ~ '</name>' }}
    {{- '\\n<description>' ~ tool.function.description ~ '</description>' }}
    {%- for name, value in tool.function.parameters.properties | default({}) | items %}
        {{- '\\n<parameter>' ~ name ~ ' ' ~ (value | tojson) ~ '</parameter>' }}
    {%- endfor %}
    {{- '\\n</function>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content | trim %}{{- '\\n' + message.content | trim }}{%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if loop.first and message.content | trim %}{{- '\\n' }}{%- endif %}
            {{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- for name, value in call.function.arguments | items %}
                {{- '<parameter=' + name + '>\\n' }}
                {{- value if value is string else value | PRINTED }}
                {{- '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content }}
        {{- '\\n</tool_response>\\n<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""Qwen3-Coder's calls: a tag for each argument."""

CODER, CODER_JSON = CODER.replace("PRINTED", "string"), CODER.replace("PRINTED", "tojson")
"""The first ones print what is no text with Python's `str`, later ones as JSON."""

PYTHON = """\
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}
{%- for tool in tools or [] %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{{- '<|im_end|>' }}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>ipython\\n' + ({'output': message.content} | tojson) + '<|im_end|>' }}
    {%- elif 'tool_calls' in message %}
        {{- '<|im_start|>assistant\\n[' }}
        {%- for call in message.tool_calls %}
            {{- call.function.name + '(' }}
            {%- for name in call.function.arguments %}
                {{- name + '=QUOTE%sQUOTE' | format(call.function.arguments[name]) }}
                {%- if not loop.last %}{{- ', ' }}{%- endif %}
            {%- endfor %}
            {{- ')' }}
            {%- if not loop.last %}{{- ', ' }}{%- endif %}
        {%- endfor %}
        {{- ']<|im_end|>' }}
    {%- elif message.role != 'system' %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""Llama's calls in Python, printed without quotes, or with quotes around everything."""

PYTHON, PYTHON_QUOTED = PYTHON.replace("QUOTE", ""), PYTHON.replace("QUOTE", '"')

LISTING = """\
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}
{%- if xml_tools %}
    {{- '\\n### Tools\\n<tools>\\n' }}
    {%- for tool in xml_tools[:] %}{{- (tool | string) ~ '\\n' }}{%- endfor %}
    {{- '</tools>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages if message.role != 'system' %}
    {%- set role = 'user' if message.role == 'tool' else message.role %}
    {{- '<|im_start|>' + role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""SmolLM3's way: a list of tools of its own name, and nothing of calls and results."""

R1 = """\
{%- set ns = namespace(is_result=false) %}
{%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}
{%- for tool in tools or [] %}{{- '\\n```json\\n' + (tool | tojson) + '\\n```' }}{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user:' + message.content + '<|im_start|>assistant:' }}
    {%- elif message.role == 'assistant' %}
        {%- if ns.is_result %}{{- '<｜tool▁outputs▁end｜>' }}{%- endif %}
        {{- message.content.split('</think>')[-1] }}
        {%- if message.tool_calls %}
            {{- '<｜tool▁calls▁begin｜>' }}
            {%- for call in message.tool_calls %}
                {%- if not loop.first %}{{- '\\n' }}{%- endif %}
                {{- '<｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' + call.function.name }}
                {{- '\\n```json\\n' + call.function.arguments + '\\n```<｜tool▁call▁end｜>' }}
            {%- endfor %}
            {{- '<｜tool▁calls▁end｜>' }}
        {%- endif %}
        {{- '<|im_end|>' }}
    {%- elif message.role == 'tool' %}
        {%- if not ns.is_result %}{{- '<｜tool▁outputs▁begin｜>' }}{%- endif %}
        {{- '<｜tool▁output▁begin｜>' + message.content + '<｜tool▁output▁end｜>' }}
    {%- endif %}
    {%- set ns.is_result = message.role == 'tool' %}
{%- endfor %}
{%- if ns.is_result %}{{- '<｜tool▁outputs▁end｜>' }}{%- endif %}
"""
"""DeepSeek R1's calls, with arguments that are expected to be a string; shows tools."""

V31 = (
    R1.replace("\\n```json\\n' + (tool", "tool: ' + (tool")
    .replace(" + '\\n```' }}", " }}")
    .replace("{%- if not loop.first %}{{- '\\n' }}{%- endif %}", "")
    .replace("call.type + '<｜tool▁sep｜>' + call.function.name", "call.function.name")
    .replace("'\\n```json\\n' + call", "'<｜tool▁sep｜>' + call")
    .replace("'\\n```<｜tool▁call▁end｜>'", "'<｜tool▁call▁end｜>'")
)
"""DeepSeek V3.1's calls."""

DISTILLED = """\
{%- set ns = namespace(is_result=false, is_later=false) %}
{%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user:' + message.content }}
    {%- elif message.role == 'assistant' and message.content is none %}
        {%- for call in message.tool_calls %}
            {{- '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' }}
            {{- call.function.name + '\\n```json\\n' + call.function.arguments + '\\n```' }}
            {{- '<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}
        {%- endfor %}
    {%- elif message.role == 'assistant' %}
        {%- if ns.is_result %}
            {{- '<｜tool▁outputs▁end｜>' + message.content + '<|im_end|>' }}
        {%- else %}
            {{- '<|im_start|>assistant:' + message.content.split('</think>')[-1] + '<|im_end|>' }}
        {%- endif %}
    {%- elif message.role == 'tool' %}
        {%- if not ns.is_later %}{{- '<｜tool▁outputs▁begin｜>' }}{%- endif %}
        {%- set ns.is_later = true %}
        {{- '<｜tool▁output▁begin｜>' + message.content + '<｜tool▁output▁end｜>' }}
    {%- endif %}
    {%- set ns.is_result = message.role == 'tool' %}
{%- endfor %}
{%- if ns.is_result %}{{- '<｜tool▁outputs▁end｜>' }}
{%- elif add_generation_prompt %}{{- '<|im_start|>assistant:<think>\\n' }}{%- endif %}
"""
"""DeepSeek's distilled models: shows no tools, and begins the reply's thinking."""
