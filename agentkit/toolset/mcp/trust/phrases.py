"""Words that speak to a model behind a person's back, as data: one rule a row.

The rules are read on a text without differences of form, see `plain`. They are meant to be right on
honest descriptions first: what such ones say now and then is a warning at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from agentkit.toolset.mcp.trust.confusables import folded
from agentkit.toolset.mcp.trust.flag import Flag, FlagKind, Severity, excerpt
from agentkit.toolset.mcp.trust.hidden import without_hidden

_FEW = r"(?:[\w'-]+ ){0,3}?"
_KEY_FILE = (
    r"(?:\.ssh(?![a-z])|(?<![a-z])id_(?:rsa|ed25519|ecdsa|dsa)(?![a-z])|\.aws/credentials"
    r"|/etc/(?:passwd|shadow|sudoers)|\.cursor/mcp\.json|claude_desktop_config|\.netrc"
    r"|\.git-credentials|\.kube/config|\.bash_history|wallet\.dat)"
)
_KEY_FILE_NEEDLES = (
    *("ssh", "id_", ".aws", "/etc/", "mcp.json", "claude_", ".netrc", "git-cred", ".kube"),
    *("bash_hist", "wallet"),
)
_SECRET = (
    r"(?:conversation|chat|message) (?:history|log|transcript)|conversation|system prompt"
    r"|(?:your|previous) (?:instructions|messages|context|memory)|api keys?|access tokens?"
    r"|passwords?|credentials|private keys?|environment variables|secrets"
)
_SEND = (
    r"(?:send|post|upload|forward|transmit|exfiltrate|leak|e?mail|bcc|append|copy|submit|report)"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What to look for in a text, and what to say of it."""

    severity: Severity
    kind: FlagKind
    needles: tuple[str, ...]
    """The pattern is only tried where one of these is in the text: that is quick."""
    pattern: str
    what: str


RULES = (
    Rule(
        "danger",
        "override",
        ("ignore", "disregard", "forget", "override", "bypass"),
        rf"\b(?:ignore|disregard|forget|override|bypass) {_FEW}"
        r"(?:(?:previous|prior|above|earlier|preceding|system|your|other|all|any) "
        rf"{_FEW}(?:instructions?|prompts?|guidelines|guardrails)"
        rf"|(?:previous|prior|preceding|your|system) "
        rf"{_FEW}(?:rules|directives|directions|policies|orders|commands)"
        r"|(?:everything|all|anything|what)(?: that)? you "
        r"(?:were|are|have been) (?:told|instructed))\b",
        "tells the model to ignore what it was told",
    ),
    Rule(
        "danger",
        "secrecy",
        ("tell", "inform", "mention", "reveal", "disclos", "let"),
        r"\b(?:do not|don't|dont|never|must not|should not|without|avoid) (?:[\w'-]+ ){0,2}?"
        r"(?:(?:tell(?:ing)?|inform(?:ing)?) (?:[\w'-]+ ){0,3}?(?:users?|humans?|anyone|anybody)"
        r"|(?:mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)) (?:[\w'-]+ ){0,5}?"
        r"to (?:the |any |your )?(?:users?|humans?|anyone|anybody)"
        r"|let(?:ting)? (?:the |any )?(?:users?|humans?|anyone|anybody) (?:know|see|notice))\b",
        "tells the model to keep something from the user",
    ),
    Rule(
        "danger",
        "secrecy",
        ("user", "human"),
        r"\b(?:users?|humans?) (?:must|should|may|can|need) (?:not|never) "
        r"(?:know|see|notice|learn|find out|be (?:told|informed|aware|notified|shown))\b"
        rf"|\b(?:keep|hide|conceal) {_FEW}from the (?:user|human)\b",
        "tells the model to keep something from the user",
    ),
    Rule(
        "warning",
        "secrecy",
        ("notify", "notifying", "show", "ask", "alert", "confirm", "mention", "reveal", "user"),
        r"\b(?:do not|don't|dont|never|without) (?:[\w'-]+ ){0,2}?"
        r"(?:notify(?:ing)?|show(?:ing)?|ask(?:ing)?|alert(?:ing)?|confirm(?:ing)?) "
        r"(?:[\w'-]+ ){0,4}?(?:users?|humans?)\b"
        r"|\b(?:do not|don't|dont|never) (?:mention|reveal|disclose|tell) "
        r"(?:that|this|these|how|anything)\b"
        r"|\bwithout the (?:user|human)'?s? (?:knowledge|knowing|noticing)\b"
        r"|\buser has (?:already )?(?:consented|agreed|approved|authorized)\b",
        "tells the model to do something without the user",
    ),
    Rule(
        "danger",
        "secret-place",
        _KEY_FILE_NEEDLES,
        r"\b(?:read|open|load|cat|include|pass|provide|attach|copy|access|fetch|get|send)\b"
        rf"[^!?]{{0,40}}{_KEY_FILE}",
        "tells the model to read a file with keys or passwords",
    ),
    Rule(
        "warning",
        "secret-place",
        _KEY_FILE_NEEDLES,
        _KEY_FILE,
        "names a file with keys or passwords",
    ),
    Rule(
        "danger",
        "disguise",
        ("<|", "[inst]", "[/inst]", "<<sys", "<start_of_turn"),
        r"<\|[a-z_]{2,24}\|>|\[/?inst\]|<</?sys>>|<start_of_turn>",
        "has control tokens of a chat template",
    ),
    Rule(
        "warning",
        "disguise",
        ("<!--",),
        r"<!--",
        "has a comment that is not shown where it is rendered",
    ),
    Rule(
        "warning",
        "disguise",
        ("important", "critical", "system", "instruction", "secret", "hidden", "mandatory"),
        r"</?(?:important|critical|system|instructions?|secret|hidden|mandatory)"
        r"(?: [^<>]{0,200})?>",
        "has a block that looks like instructions to the model",
    ),
    Rule(
        "warning",
        "disguise",
        ("from now on", "new instruction", "developer mode", "jailbreak", "note to", "restriction"),
        r"\bfrom now on (?:you|act|ignore|always|never)\b|\bnew instructions?:"
        r"|\bnote to (?:the |any )?(?:ai|assistant|llm|language model|agent|model)s?\b"
        r"|\bdeveloper mode\b|\bjailbreak|\bwithout restrictions\b",
        "speaks to the model as if it were the user or the system",
    ),
    Rule(
        "warning",
        "steering",
        ("http",),
        r"https?://\S+ [^!?]{0,60}?\b(?:follow|obey|execute) (?:what|the|its|all|any)\b",
        "tells the model to follow what an address says",
    ),
    Rule(
        "warning",
        "steering",
        ("tool", "function"),
        r"\b(?:before|instead of|prior to) "
        r"(?:using |calling |invoking |running |you use |you call )?"
        r"(?:any|all|every|each)(?: of)?(?: the)?(?: other)? (?:tools?|functions?)\b"
        r"|\balways (?:use|call|run|invoke) this (?:tool|function) (?:first|before)\b"
        r"|\b(?:do not|don't|never) (?:use|call) (?:any )?other tools?\b",
        "wants to be called before, or instead of, other tools",
    ),
    Rule(
        "danger",
        "exfiltration",
        ("http", "@"),
        rf"\b{_SEND}\b[^!?]{{0,80}}?\b(?:{_SECRET})\b[^!?]{{0,80}}?(?:https?://|[\w.+-]+@[\w-]+\.)"
        rf"|\b{_SEND}\b[^!?]{{0,20}}?(?:https?://\S+|[\w.+-]+@[\w.-]+)[^!?]{{0,60}}?\b(?:{_SECRET})\b",
        "tells the model to send something private to an address",
    ),
    Rule(
        "warning",
        "exfiltration",
        ("histor", "transcript", "conversation", "system prompt", "instructions", "reasoning"),
        r"\b(?:include|pass|provide|send|add|put|copy)\b[^.!?]{0,60}"
        r"(?:\b(?:full|entire|whole|complete)\b[^.!?]{0,20}"
        r"(?:conversation|transcript|(?:chat|message) history)"
        r"|\b(?:system prompt|your (?:system )?instructions)\b)",
        "asks for the conversation, or for what the model was told",
    ),
)  # fmt: skip


_ANY_NEEDLE = re.compile("|".join(sorted({re.escape(n) for rule in RULES for n in rule.needles})))


def phrase_flags(text: str, where: str) -> Iterator[Flag]:
    """Yield a flag for each rule that a text meets; of one kind only the most severe."""
    words = plain(text)
    if _ANY_NEEDLE.search(words) is None:
        return
    found: set[FlagKind] = set()
    for rule in RULES:
        if rule.kind in found or not any(needle in words for needle in rule.needles):
            continue
        if hit := _compiled(rule.pattern).search(words):
            found.add(rule.kind)
            shown = words[max(0, hit.start() - 10) : hit.end() + 30]
            yield Flag(rule.severity, rule.kind, where, f"{rule.what}: {excerpt(shown)}")


def plain(text: str) -> str:
    """Return a text as a model may read it: unseen characters gone, one form, one space."""
    if not text.isascii():
        text = folded(without_hidden(text)).replace("\u2019", "'")
    text = text.casefold()
    return " ".join(_DECORATION.sub(" ", text).split())


_DECORATION = re.compile(r"[*`\"\u201c\u201d,;()]+")
"""Marks that stand between words, and would hide a phrase from a pattern."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
