"""Between text and token ids: tokenizer, chat template, tool calls, grammar, streaming text.

`open_text` opens a model's `Tokenizer` and `ChatTemplate`; `Renderer` turns a chat request into a
prompt; `GrammarCompiler` restricts what may be generated for it; `GenerationText` turns generated
ids into text that may be shown, and `ToolCallParser` into chat events. `trust.py` keeps the text of
requests from becoming special tokens. Vocabularies are read by `gguf_vocabulary.py` and
`folder_vocabulary.py`. Nothing here knows the engine, the KV cache or HTTP.
"""

from agentkit_runtime.text.render import Rendered, Renderer
from agentkit_runtime.text.source import TextSource, open_text
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer

__all__ = ["ChatTemplate", "Rendered", "Renderer", "TextSource", "Tokenizer", "open_text"]
