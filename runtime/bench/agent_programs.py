"""Coding agents that anybody can install from npm or PyPI, and how they are pointed at a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
    settings: Callable[[str], dict[str, str]]
    """Files that it reads, by their path in its home, from the server's URL."""
    environment: Callable[[str], dict[str, str]]
    source: Literal["npm", "pypi"] = "npm"


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

    def settings(url: str) -> dict[str, str]:
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
            ".pi/agent/models.json": json.dumps({"providers": {"ours": provider}}),
            ".pi/agent/settings.json": json.dumps({"compaction": {"enabled": False}}),
        }

    package = "@mariozechner/pi-coding-agent"
    return Agent(f"pi ({name})", package, command, settings, lambda _: {})


def codex() -> Agent:
    """OpenAI's own, by Responses; short instructions and few tools, for its usual prompt is too
    long for 8k."""

    def command(packages: Path, prompt: str) -> list[str]:
        (binary,) = packages.glob("@openai/codex-*/vendor/*/bin/codex")
        without = ("multi_agent", "goals", "skill_mcp_dependency_install")
        off = [word for name in without for word in ("--disable", name)]
        alone = ["exec", "--skip-git-repo-check", "-s", "danger-full-access"]
        return [str(binary), *alone, *off, prompt]

    def settings(url: str) -> dict[str, str]:
        lines = [
            f'model = "{MODEL}"',
            'model_provider = "ours"',
            'model_instructions_file = "rules.md"',
            "[model_providers.ours]",
            'name = "ours"',
            f'base_url = "{url}/v1"',
            'wire_api = "responses"',
            "[skills.bundled]",
            "enabled = false",
        ]
        return {".codex/config.toml": "\n".join(lines), ".codex/rules.md": RULES}

    return Agent("codex (Responses)", "@openai/codex", command, settings, lambda _: {})


def opencode(package: str, name: str) -> Agent:
    """By the provider package that speaks an API; one tool and a short prompt of its own."""

    def command(packages: Path, prompt: str) -> list[str]:
        binary = next(iter(sorted(packages.glob("opencode-linux-*/bin/opencode"))))
        return [str(binary), "run", "--pure", "--title", "word", prompt]

    def settings(url: str) -> dict[str, str]:
        limit = {"context": SLOTS, "output": MAX_ANSWER_TOKENS}
        provider = {
            "npm": package,
            "name": "ours",
            "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
            "models": {MODEL: {"name": MODEL, "limit": limit}},
        }
        document = {
            "autoupdate": False,
            "provider": {"ours": provider},
            "model": f"ours/{MODEL}",
            "small_model": f"ours/{MODEL}",
            "agent": {"build": {"prompt": RULES, "steps": 3, "tools": {"*": False, "read": True}}},
        }
        return {".config/opencode/opencode.json": json.dumps(document)}

    return Agent(f"opencode ({name})", "opencode-ai", command, settings, lambda _: {})


def qwen_code() -> Agent:
    """By Chat Completions."""

    def command(packages: Path, prompt: str) -> list[str]:
        program = packages / "@qwen-code/qwen-code/cli.js"
        model = ["--auth-type", "openai", "-m", MODEL, "--system-prompt", RULES]
        return ["node", str(program), "--bare", *model, "--core-tools", "read_file", "-p", prompt]

    def environment(url: str) -> dict[str, str]:
        return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": MODEL}

    package = "@qwen-code/qwen-code"
    return Agent("qwen-code (Chat Completions)", package, command, lambda _: {}, environment)


def aider() -> Agent:
    """By Chat Completions, without tools: it shows the file and reads edits out of the text."""

    def command(packages: Path, prompt: str) -> list[str]:
        model = ["--model", f"openai/{MODEL}", "--no-show-model-warnings", "--map-tokens", "0"]
        quiet = ["--no-git", "--no-check-update", "--no-show-release-notes", "--no-pretty"]
        alone = ["--analytics-disable", "--yes-always"]
        program = packages.parent / "pypi/bin/aider"
        return [str(program), *model, *quiet, *alone, "--message", prompt, "notes.txt"]

    def environment(url: str) -> dict[str, str]:
        return {"OPENAI_API_KEY": "none", "OPENAI_API_BASE": f"{url}/v1"}

    def settings(url: str) -> dict[str, str]:
        model = {
            "name": f"openai/{MODEL}",
            "edit_format": "whole",
            "extra_params": {"max_tokens": MAX_ANSWER_TOKENS},
        }
        return {".aider.model.settings.yml": json.dumps([model])}

    name = "aider (Chat Completions)"
    return Agent(name, "aider-chat", command, settings, environment, "pypi")


def agents() -> list[Agent]:
    """All of them."""
    return [
        claude_code(),
        pi("anthropic-messages", "", "Messages"),
        pi("openai-completions", "/v1", "Chat Completions"),
        pi("openai-responses", "/v1", "Responses"),
        codex(),
        opencode("@ai-sdk/openai-compatible", "Chat Completions"),
        opencode("@ai-sdk/openai", "Responses"),
        opencode("@ai-sdk/anthropic", "Messages"),
        qwen_code(),
        aider(),
    ]
