"""From a model string to weights on disk and tensors in memory.

`locate` finds or fetches the files (`locate.py` decides, `pull.py` and `hub.py` fetch);
`open_checkpoint` reads them. `gguf_file.py` owns the GGUF container, `gguf_config.py` and
`gguf_checkpoint.py` its meaning, `safetensors_dir.py` and `hf_config.py` the Hugging Face folder,
`layout.py` which tensors there must be, `lora.py` adapters.
Nothing here knows tokenizers (see `text/`) or computes with the weights (see `model/`).
"""

from agentkit_runtime.loading.checkpoint import Checkpoint, open_checkpoint
from agentkit_runtime.loading.locate import locate
from agentkit_runtime.loading.model_files import ModelFiles

__all__ = ["Checkpoint", "ModelFiles", "locate", "open_checkpoint"]
