"""How a byte-level BPE vocabulary splits text before merging, by the name a GGUF file gives it.

`tokenizer.ggml.pre` only names the split. The expressions are those of the models' own
`tokenizer.json`, with the contraction alternatives spelt out as llama.cpp spells them (the inline
flag `(?i:...)` would also fold U+017F). A name that is not here is refused: a wrong split gives
token ids that look right and are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tokenizers import Regex, pre_tokenizers

from agentkit_runtime.errors import UnsupportedModel

_CONTRACTION = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_TAIL}"
_QWEN2 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_TAIL}"
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)


@dataclass(frozen=True, slots=True)
class SplitRule:
    """Expressions applied one after the other, each isolating its matches in what is left."""

    expressions: tuple[str, ...]
    ignore_merges: bool = False
    """A piece that is a token as a whole is taken as it is, whatever the merges say."""

    def build(self) -> pre_tokenizers.PreTokenizer:
        """The split, followed by the byte alphabet."""
        steps = [
            pre_tokenizers.Split(Regex(expression), behavior="isolated")
            for expression in self.expressions
        ]
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*steps, byte_level])


_DIGITS_THEN_GPT2 = SplitRule((r"\p{N}", _GPT2))
_LLAMA3_RULE = SplitRule((_LLAMA3,), ignore_merges=True)

SPLIT_RULES: Mapping[str, SplitRule] = MappingProxyType(
    {
        "gpt-2": SplitRule((_GPT2,)),
        "olmo": SplitRule((_GPT2,)),
        "smollm": _DIGITS_THEN_GPT2,
        "starcoder": _DIGITS_THEN_GPT2,
        "command-r": _DIGITS_THEN_GPT2,
        "llama-bpe": _LLAMA3_RULE,
        "llama3": _LLAMA3_RULE,
        "llama-v3": _LLAMA3_RULE,
        "qwen2": SplitRule((_QWEN2,)),
        "deepseek-r1-qwen": SplitRule((_QWEN2,)),
        "megrez": SplitRule((_QWEN2,)),
        "tekken": SplitRule((_TEKKEN,), ignore_merges=True),
        "deepseek-v3": SplitRule(_DEEPSEEK_V3),
    }
)
"""Names of `tokenizer.ggml.pre` that are known."""


def split_rule(name: object) -> SplitRule:
    """The rule called `name`. Raises `UnsupportedModel` for any other value."""
    rule = SPLIT_RULES.get(name) if isinstance(name, str) else None
    if rule is None:
        raise UnsupportedModel(
            f"the pre-tokenizer {name!r} (tokenizer.ggml.pre) is not known; "
            f"known are {', '.join(sorted(SPLIT_RULES))}"
        )
    return rule
