"""`python -m agentkit`."""

from __future__ import annotations

from agentkit.cli import main

if __name__ == "__main__":
    main()
