"""The honest server over stdio, as a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import honest

honest().run("stdio")
