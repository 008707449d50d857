"""Coding agents that anybody can install from npm, and how they are pointed at a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MODEL = "smollm2"
SLOTS = 8192
MAX_ANSWER_TOKENS = 80
RULES = "You read files with the function read."


@dataclass(frozen=True)
class Agent:
    """A program that talks to a model and runs its calls."""

    name: str
    package: str
    command: Callable[[Path, str], list[str]]
    """From the folder of installed packages and the prompt."""
    settings: Callable[[str], dict[str, object]]
    """Files that it reads, by their path in its home, from the server's URL."""
    environment: Callable[[str], dict[str, str]]


def claude_code() -> Agent:
    """Anthropic's own; `--bare` and a short system prompt, for its usual one is too long for 8k."""

    def command(packages: Path, prompt: str) -> list[str]:
        (binary,) = packages.glob("@anthropic-ai/claude-code-*/claude")
        options = ["--bare", "--system-prompt", RULES, "--tools", "Read", "--allowedTools", "Read"]
        bounds = ["--max-turns", "3", "--no-session-persistence", "--output-format", "text"]
        return [str(binary), "-p", prompt, *options, *bounds]

    def environment(url: str) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_MODEL": MODEL,
            "ANTHROPIC_SMALL_FAST_MODEL": MODEL,
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(MAX_ANSWER_TOKENS),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }

    package = "@anthropic-ai/claude-code"
    return Agent("claude-code (Messages)", package, command, lambda _: {}, environment)


def pi(api: str, base: str, name: str) -> Agent:
    """A small agent that speaks all three APIs."""

    def command(packages: Path, prompt: str) -> list[str]:
        program = packages / "@mariozechner/pi-coding-agent/dist/cli.js"
        model = ["--provider", "ours", "--model", MODEL, "--system-prompt", RULES]
        only = ["--no-session", "--offline", "--no-extensions", "--no-skills", "--no-context-files"]
        return ["node", str(program), "-p", *model, *only, "--tools", "read", prompt]

    def settings(url: str) -> dict[str, object]:
        model = {
            "id": MODEL,
            "name": MODEL,
            "contextWindow": SLOTS,
            "maxTokens": MAX_ANSWER_TOKENS,
            "input": ["text"],
            "reasoning": False,
        }
        provider = {"baseUrl": f"{url}{base}", "api": api, "apiKey": "none", "models": [model]}
        return {
            ".pi/agent/models.json": {"providers": {"ours": provider}},
            ".pi/agent/settings.json": {"compaction": {"enabled": False}},
        }

    package = "@mariozechner/pi-coding-agent"
    return Agent(f"pi ({name})", package, command, settings, lambda _: {})


def agents() -> list[Agent]:
    """All of them."""
    return [
        claude_code(),
        pi("anthropic-messages", "", "Messages"),
        pi("openai-completions", "/v1", "Chat Completions"),
        pi("openai-responses", "/v1", "Responses"),
    ]
