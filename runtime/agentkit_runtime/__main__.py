"""`python -m agentkit_runtime` is the `agentkit-runtime` command."""

from agentkit_runtime.cli import main

if __name__ == "__main__":
    main()
