"""Chat templates that say earlier turns otherwise later, in the manner of well-known families.

Written for these tests; each does to the history what the family's own template does.
"""

from __future__ import annotations

THINKING = """\
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' and not message.content.startswith('<tool_response>') %}
        {%- set ns.last = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '<tools>' }}
    {%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set said = message.content.split('</think>')[-1].lstrip('\\n') %}
        {%- if KEEP %}
            {%- set said = message.content %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' + said }}
        {%- for call in message.tool_calls or [] %}
            {%- if not loop.first or said %}{{- '\\n' }}{%- endif %}
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
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

QWEN3 = THINKING.replace("KEEP", "loop.index0 > ns.last")
"""Thinking is dropped from all turns before the last question."""

GLM = THINKING.replace(
    "KEEP", "loop.index0 > ns.last or (clear_thinking is defined and not clear_thinking)"
)
"""The same, and a flag that keeps it."""

PRESERVING = THINKING.replace(
    "KEEP", "loop.index0 > ns.last or (preserve_thinking is defined and preserve_thinking)"
)
"""The same, with the opposite flag."""

ALWAYS_DROPS = THINKING.replace("KEEP", "false")
"""Thinking is dropped from every turn, as in DeepSeek's template."""

LLAMA31 = """\
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now('%d %b %Y') %}
    {%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}
{%- endif %}
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content | trim %}{%- set rest = messages[1:] %}
{%- else %}
    {%- set system = '' %}{%- set rest = messages %}
{%- endif %}
{{- '<|im_start|>system\\nToday Date: ' + date_string + '\\n\\n' + system + '<|im_end|>' }}
{%- for message in rest %}
    {{- '<|im_start|>' + message.role + '\\n\\n' + message.content | trim + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n\\n' }}{%- endif %}
"""
"""The date in the system message, and every content trimmed."""

TOOLS_AT_LAST_USER = """\
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- if tools and loop.index0 == ns.last %}
            {{- '[AVAILABLE_TOOLS]' }}
            {%- for tool in tools %}{{- tool | tojson }}{%- endfor %}
            {{- '[/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {{- '<|im_start|>[INST] ' + message.content + '[/INST]' }}
    {%- elif message.role == 'tool' %}
        {{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' }}
    {%- else %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '[TOOL_CALLS] [{"name": "' + call.function.name + '", "arguments": ' }}
            {{- (call.function.arguments | tojson) + '}]' }}
        {%- endfor %}
        {{- '<|im_end|>' }}
    {%- endif %}
{%- endfor %}
"""
"""Tools stand before the last user message only, as in Mistral's first templates."""

SMOLLM3 = """\
{%- set mode = '/think' %}
{%- if messages[0].role == 'system' and '/no_think' in messages[0].content %}
    {%- set mode = '/no_think' %}
{%- endif %}
{{- '<|im_start|>system\\nToday Date: ' + strftime_now('%d %B %Y') + '\\nMode: ' + mode }}
{%- if messages[0].role == 'system' %}{{- '\\n' + messages[0].content }}{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == 'user' or message.role == 'tool' %}
        {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- if mode == '/think' %}
            {{- '<|im_start|>assistant\\n' + message.content.lstrip('\\n') + '<|im_end|>\\n' }}
        {%- else %}
            {{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n' }}
            {{- message.content.lstrip('\\n') + '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if mode == '/no_think' %}{{- '<think>\\n\\n</think>\\n' }}{%- endif %}
{%- endif %}
"""
"""The date, a mode, and an empty thought in front of each answer."""

REWRITING = {
    "qwen3": QWEN3,
    "glm": GLM,
    "preserving": PRESERVING,
    "deepseek": ALWAYS_DROPS,
    "llama31": LLAMA31,
    "mistral": TOOLS_AT_LAST_USER,
    "smollm3": SMOLLM3,
}
