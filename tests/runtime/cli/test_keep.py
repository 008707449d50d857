"""`warm`, `pins` and `prune` against a real server."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentkit_runtime import cli
from tests.runtime.cli.conftest import Shop

RULES = "You are the clerk of a museum. Answer in one sentence."
FRONT = {"messages": [{"role": "system", "content": RULES}], "model": "m", "temperature": 1}


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(FRONT), "utf-8")
    return str(path)


def test_a_warm_prefix_is_read_by_the_first_request(shop: Shop, rules: str) -> None:
    done = shop.run("warm", rules)

    assert done.code == 0, done.stderr
    warm = shop.ask("hello", RULES)["prompt_tokens_details"]["cached_tokens"]
    assert f"{warm} tokens, {warm} computed, 0 cached" in done.stdout
    assert warm > 10
    assert "model, temperature" in done.stderr
    assert f"{warm} tokens, 0 computed, {warm} cached" in shop.run("warm", rules).stdout


def test_a_text_file_is_a_system_prompt(shop: Shop, rules: str, tmp_path: Path) -> None:
    (tmp_path / "rules.md").write_text(RULES, "utf-8")

    shop.run("warm", rules)
    (done,) = shop.run("warm", str(tmp_path / "rules.md"), "--json").json

    assert done["cached_tokens"] == done["tokens"]


def without_seconds(text: str) -> str:
    """The text but for how long a pin still has, which passes."""
    return re.sub(r"\d+ s\b", "N s", text)


def test_a_pin_is_listed_until_it_is_ended(shop: Shop, rules: str) -> None:
    (done,) = shop.run("warm", rules, "--pin", "--ttl", "2h", "--name", "clerk", "--json").json
    (pin,) = shop.run("pins", "--json").json
    listed = shop.run("pins").stdout

    assert (pin["name"], pin["ttl_s"], pin["tenant"]) == ("clerk", 7200.0, "ann")
    assert pin["handle"] == done["pin"]["handle"]
    assert pin["handle"] in listed
    assert "clerk" in listed
    of_all = shop.run("pins", "--all", key="root").stdout
    assert without_seconds(of_all) == without_seconds(listed)
    assert shop.run("pins", "--tenant", "bob", "--json", key="root").json == []
    assert shop.run("pins", "--end", pin["handle"]).code == 0
    assert shop.run("pins", "--json").json == []


def test_an_operator_warms_for_a_tenant(shop: Shop, rules: str) -> None:
    assert shop.run("warm", rules, "--tenant", "ann", key="root").code == 0
    assert shop.ask("hello", RULES)["prompt_tokens_details"]["cached_tokens"] > 10


def test_a_dry_run_says_what_a_prune_frees(shop: Shop, rules: str) -> None:
    shop.ask("hello", RULES, **{"x-session-id": "s1"})

    would = shop.run("prune", "--session", "s1", "--dry-run", "--json").json
    done = shop.run("prune", "--session", "s1")

    assert would["freed_tokens"] > 10
    assert f"{would['freed_tokens']} tokens freed; 0 pins ended" in done.stdout
    assert shop.run("prune", "--everything", "--json").json["freed_tokens"] == 0


@pytest.mark.parametrize("by", ["--prefix", "--everything"])
def test_what_was_warmed_is_pruned_by_the_same_file_or_with_all(
    shop: Shop, rules: str, by: str
) -> None:
    shop.run("warm", rules)

    done = shop.run("prune", by, *([rules] if by == "--prefix" else []), "--json").json

    assert done["freed_tokens"] > 10


@pytest.mark.parametrize(
    ("command", "key", "code", "said"),
    [
        (("warm", "{rules}"), None, 1, "--key-file"),
        (("warm", "{rules}"), "root", 1, "the key may not do that"),
        (("pins", "--all"), "ann", 1, "the key may not do that"),
        (("pins", "--end", "pin-nobodys"), "ann", 1, "no pin"),
        (("warm", "{rules}", "--ttl", "1h"), "ann", 2, "--pin"),
        (("warm", "{rules}", "{rules}", "--pin", "--name", "x"), "ann", 2, "one FILE"),
        (("prune",), "ann", 2, "none"),
        (("prune", "--tag", "a", "--session", "b"), "ann", 2, "got 2"),
        (("pins", "--all", "--tenant", "ann"), "root", 2, "contradict"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    shop: Shop, rules: str, command: tuple[str, ...], key: str | None, code: int, said: str
) -> None:
    done = shop.run(*(part.format(rules=rules) for part in command), key=key)

    assert done.code == code
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not any(secret in done.stderr for secret in shop.keys.values())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no messages"),
        ('{"tools": []}', "no messages"),
        ('[{"role": "nobody", "content": "x"}]', "400"),
    ],
)
def test_a_file_that_is_no_prefix_is_named(
    shop: Shop, tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "bad.json").write_text(content, "utf-8")

    done = shop.run("warm", str(tmp_path / "bad.json"))

    assert done.code == 1
    assert said in done.stderr
    assert done.stderr.startswith("error: ")


def test_a_server_that_is_not_there_is_said_with_what_to_do() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody else gets it meanwhile, and nobody listens
        port = unused.getsockname()[1]
        done = CliRunner().invoke(cli.app, ["pins", f"127.0.0.1:{port}/v1"])

    assert done.exit_code == 1
    assert f"no server answers at http://127.0.0.1:{port} " in done.stderr
    assert "agentkit-runtime serve" in done.stderr


def test_where_the_server_has_no_such_path_it_is_taken_for_another_or_an_older_one(
    shop: Shop,
) -> None:
    below = replace(shop, url=f"{shop.url}/elsewhere")

    done = below.run("pins")

    assert done.code == 1
    assert f"what is at {below.url} is no agentkit runtime, or an older one" in done.stderr


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:nan", "http://user:pw@x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    done = CliRunner().invoke(cli.app, ["pins", url])

    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")


def test_the_key_of_a_file_counts_more_than_the_environments(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{shop.keys['root']}\n", "utf-8")
    (tmp_path / "empty").write_text("\n", "utf-8")

    assert shop.run("pins", "--all", "--key-file", str(tmp_path / "key")).code == 0
    empty = shop.run("pins", "--key-file", str(tmp_path / "empty"))

    assert (empty.code, "a key on one line" in empty.stderr) == (1, True)


def test_a_pin_that_is_not_there_is_told_with_the_nearest(shop: Shop, rules: str) -> None:
    (done,) = shop.run("warm", rules, "--pin", "--name", "clerk", "--json").json
    handle = done["pin"]["handle"]

    for command in (("pins", "--end"), ("prune", "--pin")):
        by_name = shop.run(*command, "clerk")
        misspelt = shop.run(*command, f"{handle[:-1]}_")
        assert (by_name.code, misspelt.code) == (1, 1)
        assert f"no pin 'clerk'; that is {handle}" in by_name.stderr
        assert f"did you mean '{handle}'?" in misspelt.stderr
    assert f"that is {handle}" in shop.run("pins", "--all", "--end", "clerk", key="root").stderr
    assert handle not in shop.run("pins", "--end", "clerk", key="bob").stderr


def test_a_session_that_nobody_had_is_remarked_upon(shop: Shop) -> None:
    shop.ask("hello", **{"x-session-id": "trip-17", "x-agentkit-tags": "reader"})

    for by, name, near in (("session", "trip-71", "trip-17"), ("tag", "raeder", "reader")):
        own = shop.run("prune", f"--{by}", name)
        steered = shop.run("prune", f"--{by}", name, "--tenant", "ann", key="root")
        assert (own.code, steered.code) == (0, 0)
        assert own.stderr == f"note: nothing is cached of the {by} {name!r}.\n"
        assert f"did you mean {near!r}?" in steered.stderr
    done = shop.run("prune", "--session", "trip-17")
    assert (done.code, done.stderr) == (0, "")


def test_a_tenant_that_is_not_there_is_told_with_the_nearest(shop: Shop, rules: str) -> None:
    for command in (("warm", rules), ("pins",), ("prune", "--everything")):
        done = shop.run(*command, "--tenant", "Ann", key="root")
        assert done.code == 1
        assert "did you mean 'ann'?" in done.stderr
