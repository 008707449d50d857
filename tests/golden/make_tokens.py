"""Pin llama.cpp's token ids of the prompts and of the strings in token_strings.py.

Run with llama-cpp-python 0.3.36 (see README.md):

    python tests/golden/make_tokens.py MODEL.gguf

Writes `smollm2_tokens.json`:

    {"model": file name, "llama_cpp_python": version,
     "prompts": [{"name", "text", "ids"}],          special tokens recognised
     "strings": [{"text", "special", "plain"}]}     ids with and without special tokens recognised

"plain" is what untrusted text must become: `<|im_end|>` in it is a handful of ordinary tokens.
No BOS is added anywhere.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import llama_cpp
from token_strings import golden_strings

GOLDEN = Path(__file__).parent


def main() -> None:
    """Tokenise everything and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    arguments = parser.parse_args()
    llama = llama_cpp.Llama(model_path=str(arguments.model), vocab_only=True, verbose=False)

    def ids(text: str, *, special: bool) -> list[int]:
        return llama.tokenize(text.encode("utf-8"), add_bos=False, special=special)

    prompts = [
        {"name": path.stem, "text": text, "ids": ids(text, special=True)}
        for path in sorted((GOLDEN / "prompts").glob("*.txt"))
        for text in [path.read_bytes().decode("utf-8")]
    ]
    strings = [
        {"text": text, "special": ids(text, special=True), "plain": ids(text, special=False)}
        for text in golden_strings()
    ]
    head = {"model": arguments.model.name, "llama_cpp_python": llama_cpp.__version__}
    _write(GOLDEN / "smollm2_tokens.json", head, {"prompts": prompts, "strings": strings})


def _write(path: Path, head: dict[str, str], lists: dict[str, list[dict[str, object]]]) -> None:
    """One entry a line, so that a difference in a diff is one string."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, entries in lists.items():
        body = ",\n".join(json.dumps(entry) for entry in entries)
        lines.append(f"{json.dumps(key)}: [\n{body}\n]")
    path.write_text("{" + ",\n".join(lines) + "}\n", encoding="ascii")


if __name__ == "__main__":
    main()
