"""`agentkit-runtime keys`: what it prints, what it refuses, what a server then sees."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner, Result

from agentkit_runtime import cli
from agentkit_runtime.api.caller import Role
from agentkit_runtime.cli import keys as cli_keys
from agentkit_runtime.cli import limits as cli_limits
from agentkit_runtime.tenancy.key import digest, is_key, shown
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.terms import PriorityName, Terms
from tests.runtime.tenancy.house import House, ask


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "keys.db"
    monkeypatch.setenv("AGENTKIT_RUNTIME_KEYS", str(path))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["keys", *arguments])


def add(*arguments: str) -> tuple[str, str]:
    """Add a key; its id and itself."""
    done = run("add", *arguments)
    assert done.exit_code == 0, done.output
    key = done.stdout.strip()
    assert is_key(key)
    return done.stderr.split(":")[0], key


def test_the_choices_are_those_of_the_server() -> None:
    assert {role.value for role in cli_keys.RoleName} == set(get_args(Role))
    assert get_args(cli_limits.PriorityName) == get_args(PriorityName)


def test_a_key_is_printed_once_and_alone_on_stdout(path: Path) -> None:
    key_id, key = add("--tenant", "ann", "--name", "laptop", "--expires", "90d")

    with KeyStore(path) as store:
        ((found, record),) = store.snapshot().keys.items()
    assert (found, record.id, record.tenant, record.name) == (digest(key), key_id, "ann", "laptop")
    assert record.expires_s == pytest.approx(time.time() + 90 * 86_400, abs=60)
    listed = run("list").output
    assert shown(key) in listed
    assert key[:20] not in listed


def test_a_key_can_have_both_roles(path: Path) -> None:
    add("--role", "admin", "--role", "user", "--tenant", "ann")

    (row,) = json.loads(run("list", "--json").stdout)
    assert (row["roles"], row["tenant"], row["state"]) == (["admin", "user"], "ann", "active")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add",), "belongs to a tenant"),
        (("add", "--tenant", "a b"), "a tenant's name"),
        (("add", "--role", "admin", "--tenant", "ann"), "has no tenant's data"),
        (("add", "--role", "root"), "root"),
        (("add", "--tenant", "ann", "--expires", "soon"), "a duration is"),
        (("limits", "ann", "--max-tokens", "many"), "a limit is a whole number"),
        (("limits", "ann", "--new", "--max-tokens", "0"), "--max-tokens"),
        (("limits", "ann", "--new", "--weight", "0"), "weight"),
        (("limits", "a b"), "a tenant's name"),
    ],
)
def test_wrong_usage_says_what_is_wrong(
    path: Path, arguments: tuple[str, ...], message: str
) -> None:
    with KeyStore(path, create=True):
        done = run(*arguments)

    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("command", [("list",), ("revoke", "k"), ("rotate", "k"), ("limits", "a")])
def test_without_a_store_only_add_makes_one(path: Path, command: tuple[str, ...]) -> None:
    done = run(*command)

    assert done.exit_code == 1
    assert "keys add --keys" in done.output
    assert not path.exists()


def test_a_revoked_key_leaves_the_list(path: Path) -> None:
    key_id, _ = add("--tenant", "ann")

    assert run("revoke", key_id).exit_code == 0
    assert json.loads(run("list", "--json").stdout) == []
    (row,) = json.loads(run("list", "--json", "--all").stdout)
    assert (row["id"], row["state"]) == (key_id, "revoked")
    assert run("revoke", "key_x").exit_code == 1


def test_a_rotated_key_prints_its_successor(path: Path) -> None:
    key_id, key = add("--tenant", "ann")

    done = run("rotate", key_id, "--overlap", "0s")

    assert is_key(done.stdout.strip())
    assert done.stdout.strip() != key
    states = [row["state"] for row in json.loads(run("list", "--json", "--all").stdout)]
    assert states == ["expired", "active"]


def test_limits_of_a_tenant_that_is_not_there_name_the_nearest(path: Path) -> None:
    add("--tenant", "team-a")
    add("--tenant", "billing")

    done = run("limits", "teem-a", "--max-tokens", "5")

    assert done.exit_code == 1
    assert "no tenant 'teem-a'" in done.stderr
    assert "did you mean 'team-a'? There are: billing, team-a." in done.stderr
    assert "--new" in done.stderr
    with KeyStore(path) as store:
        assert store.snapshot().terms == {}
    assert run("limits", "teem-a", "--max-tokens", "5", "--new").exit_code == 0
    assert run("limits", "teem-a").exit_code == 0


def test_a_new_tenant_that_is_called_like_another_is_remarked_upon(path: Path) -> None:
    assert "note" not in run("add", "--tenant", "team-a").stderr
    assert "note" not in run("add", "--tenant", "team-a").stderr
    assert "note" not in run("add", "--tenant", "billing").stderr
    done = run("add", "--tenant", "Team-A")
    assert is_key(done.stdout.strip())
    assert "note: 'Team-A' is a new tenant; there is also 'team-a'" in done.stderr


def test_a_key_that_is_named_by_something_else_than_its_id_is_found(path: Path) -> None:
    key_id, key = add("--tenant", "ann", "--name", "laptop")

    by_name = run("revoke", "laptop")
    by_itself = run("revoke", key)
    misspelt = run("rotate", f"{key_id[:-1]}x")

    assert [done.exit_code for done in (by_name, by_itself, misspelt)] == [1, 1, 1]
    for done in (by_name, by_itself):
        assert f"that is {key_id}" in done.stderr
    assert f"did you mean '{key_id}'?" in misspelt.stderr
    assert key not in by_itself.output


def test_limits_that_are_not_named_stay(path: Path) -> None:
    with KeyStore(path, create=True):
        run("limits", "ann", "--new", "--requests-per-minute", "5", "--max-priority", "batch")
        run("limits", "ann", "--weight", "2", "--pinned-tokens", "0")
        done = run("limits", "ann", "--requests-per-minute", "none")

    assert done.exit_code == 0
    assert "pinned_tokens        0" in done.stdout
    assert "spent this month     0" in done.stdout
    with KeyStore(path) as store:
        assert store.terms("ann") == Terms(weight=2.0, pinned_tokens=0, max_priority="batch")


def test_a_running_server_sees_what_commands_do(house: House) -> None:
    where = ("--keys", str(house.store.path))
    key_id, key = add(*where, "--tenant", "eve")
    eve = {"Authorization": f"Bearer {key}"}

    assert ask(house.nobody, headers=eve).status_code == 200
    run("limits", *where, "eve", "--concurrent-requests", "1")
    assert ask(house.nobody, n=2, headers=eve).status_code == 400
    run("revoke", *where, key_id)
    assert ask(house.nobody, headers=eve).status_code == 401
