"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The bundled default model, fetched on first use into the user's cache."""
    from agentkit_runtime.loading import locate

    return Path(locate("smollm2").weights[0])
