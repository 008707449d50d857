"""Schemas and results have the same bytes under every hash seed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import collections, dataclasses, enum
from typing import Annotated
from typing_extensions import TypedDict
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field
from agentkit.toolset import tool
from agentkit.toolset.results import to_output

WORDS = {"north", "east", "south", "west", "up", "down"}
PAIRS = frozenset(frozenset({word, word.upper(), word * 2}) for word in WORDS)

class Computed(BaseModel):
    words: set[str] = set(WORDS)
    @computed_field
    @property
    def kinds(self) -> set[str]: return {word[0] for word in self.words}
class Excluded(BaseModel):
    secret: int = Field(1, exclude=True)
    words: set[str] = Field(default=set(WORDS), serialization_alias="terms")
class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    words: set[str] = set(WORDS)
class Root(RootModel[set[str]]): pass
class Nested(BaseModel):
    inner: Computed = Computed()
    root: Root = Root(set(WORDS))
    pairs: frozenset[frozenset[str]] = PAIRS
@dataclasses.dataclass
class Data:
    words: frozenset[str] = frozenset(WORDS)
    inner: Excluded = dataclasses.field(default_factory=Excluded)
    shown: Annotated[set[str], Field(examples=[WORDS])] = dataclasses.field(default_factory=set)
class Shown(BaseModel):
    words: set[str] = Field(alias="terms", default=set(), examples=[set(WORDS), {"a": WORDS}])
class Typed(TypedDict):
    words: Annotated[set[str], Field(examples=[WORDS])]
class Choice(enum.Enum):
    ALL = frozenset(WORDS)

VALUES = [Computed(), Excluded(), Open(more=set(WORDS)), Nested(), Data(), Choice.ALL, PAIRS]
for value in VALUES:
    def find(x=value): "Find."
    find.__annotations__["x"] = type(value)
    if not isinstance(value, (enum.Enum, frozenset)):
        print(tool(find).spec.bytes.decode())
    print(to_output(value).content)
    print(to_output([(value,), {"key": value}]).content)
print(to_output(words for words in [WORDS]).content)
print(to_output({"deep": (words for words in [WORDS])}).content)
print(to_output(collections.deque([WORDS, Computed()])).content)

@tool
def look(
    shown: Shown, typed: Typed, data: Data, plain: Annotated[set[str], Field(examples=[WORDS])]
) -> None: "Look."
print(look.spec.bytes.decode())
"""


def test_sets_have_the_same_bytes_under_every_hash_seed_wherever_they_are():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    lines = outputs.pop().splitlines()
    assert '"kinds":["d","e","n","s","u","w"]' in lines[1]
    assert lines[-4] == '[["down","east","north","south","up","west"]]'
