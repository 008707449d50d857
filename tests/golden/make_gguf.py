"""Convert tiny checkpoints to GGUF with llama.cpp's own converter.

Run with the environment of make_logits.py (see README.md), after make_tiny.py, on an unpacked
source distribution of llama-cpp-python 0.3.36, which has llama.cpp in it:

    python tests/golden/make_gguf.py llama_cpp_python-0.3.36/vendor/llama.cpp

Writes `tiny_gguf/NAME.gguf`: the same bfloat16 weights as in `tiny/NAME`, so that `golden.npz`
there holds for both. What the converter does is the definition of the file format for us: metadata
keys, Q and K rows permuted for `llama` and not for `qwen2` and `qwen3`, llama3 rope scaling as a
tensor. There is no tokenizer in these files.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent
NAMES = ("llama_rope_llama3", "qwen2", "qwen3")


def main() -> None:
    """Convert every checkpoint in NAMES."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("llama_cpp", type=Path)
    source: Path = parser.parse_args().llama_cpp
    # The converter wants the gguf package of its own source tree.
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    for name in NAMES:
        _convert(GOLDEN / "tiny" / name, GOLDEN / "tiny_gguf" / f"{name}.gguf")


def _convert(folder: Path, target: Path) -> None:
    import gguf
    from conversion import get_model_class

    (architecture,) = json.loads((folder / "config.json").read_text("utf-8"))["architectures"]
    converter = get_model_class(architecture, mmproj=False)
    without_vocabulary = type(
        converter.__name__,
        (converter,),
        {"model_arch": converter.model_arch, "set_vocab": lambda self: self._set_vocab_none()},
    )
    target.parent.mkdir(exist_ok=True)
    without_vocabulary(folder, gguf.LlamaFileType.MOSTLY_BF16, target).write()


if __name__ == "__main__":
    main()
