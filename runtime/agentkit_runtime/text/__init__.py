"""Between text and token ids: tokenizer, chat template, tool calls, grammar, streaming text.

`Renderer` turns a chat request into a prompt, with a model's `Tokenizer` and `ChatTemplate`;
`GrammarCompiler` restricts what may be generated for it; `GenerationText` turns generated ids into
text that may be shown, and `ToolCallParser` that text into chat events. `trust.py` keeps the text
of requests from becoming special tokens. Nothing here knows the engine, the KV cache or HTTP.
"""

from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.render import Rendered, Renderer
from agentkit_runtime.text.stream import GenerationText
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.toolcalls import ToolCallParser

__all__ = [
    "ChatTemplate",
    "GenerationText",
    "GrammarCompiler",
    "Rendered",
    "Renderer",
    "Tokenizer",
    "ToolCallParser",
]
