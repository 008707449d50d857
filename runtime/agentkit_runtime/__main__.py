"""`agentkit-runtime` and `python -m agentkit_runtime`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without the runtime's packages, say how to get them."""
    try:
        from agentkit_runtime.cli import main as run
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("agentkit"):
            raise
        sys.exit(
            f"error: the package {missing.name!r} is missing; "
            'in a checkout run: pip install -c requirements.lock ".[runtime]"'
        )
    run()


if __name__ == "__main__":
    main()
