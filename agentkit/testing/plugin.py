"""For pytest. It is loaded by itself where agentkit is installed; `-p no:agentkit` turns it off.

What each test has: `assert_prefix_stable(run)` and `assert_cache(run)` know the requests of its
runs. Fixtures: `scripted_model`, `wire_cassette`, `forbid_real_calls`. Markers:
`wire_cassette(name=..., secrets=[...])`, `allow_real_calls`, `no_capture`. Options are in `--help`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentkit.models.scripted import ScriptedModel
    from agentkit.testing.wire.cassette import Player, Recorder

_FORBID = "agentkit_forbid_real_calls"
_HOSTS = "agentkit_allowed_hosts"
_SECRETS = "agentkit_cassette_secrets"
_RECORD = "--agentkit-record"
_MODES = ("none", "new", "all")
_PLAIN_NAME = re.compile(r"([\w.]+)(?:\[([\w.-]*)\])?")
_LONGEST_NAME = 100
_HAS_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addini(
        _FORBID,
        "Let no connection of a test out of this machine; so does AGENTKIT_FORBID_REAL_CALLS=1.",
        type="bool",
        default=False,
    )
    parser.addini(_HOSTS, "Hosts that may be called all the same.", type="linelist", default=[])
    parser.addini(
        _SECRETS,
        "Regular expressions of what is not written into cassettes, one a line: whole matches, or "
        "the groups of an expression that has some.",
        type="linelist",
        default=[],
    )
    parser.getgroup("agentkit").addoption(
        _RECORD,
        choices=_MODES,
        default=os.environ.get("AGENTKIT_RECORD", "none"),
        help="Record the traffic of tests with a wire_cassette: `new` where there is no recording, "
        "`all` anew. Needs keys and a network. Also AGENTKIT_RECORD.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; refuse to record where nobody would look at the recording.

    Raises:
        UsageError: a recording is asked for in CI, or in a way that does not exist.
    """
    config.addinivalue_line(
        "markers",
        "wire_cassette(name=None, secrets=()): replay the HTTP traffic that was recorded; see the "
        "fixture of the same name.",
    )
    config.addinivalue_line(
        "markers", "no_capture: keep nothing of what this test's runs ask, for very long ones."
    )
    config.addinivalue_line(
        "markers", "allow_real_calls: let this test call real hosts where that is forbidden."
    )
    mode = config.getoption(_RECORD)
    if mode not in _MODES:
        raise pytest.UsageError(f"AGENTKIT_RECORD must be one of {_MODES}, got {mode!r}")
    if mode != "none" and _is_ci():
        raise pytest.UsageError(
            f"{_RECORD}={mode} in CI (the variable CI is set): recordings are made where a person "
            "looks at them, and are committed"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether a test has failed: then the end of a fixture does not complain, too."""
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def _agentkit_around_test(request: pytest.FixtureRequest) -> Iterator[None]:
    from agentkit.testing.capture import capture

    marked = request.node.get_closest_marker
    with nullcontext() if marked("no_capture") else capture():
        if _is_forbidden(request.config) and marked("allow_real_calls") is None:
            request.getfixturevalue("forbid_real_calls")
        if marked("wire_cassette") is not None:
            request.getfixturevalue("wire_cassette")
        yield


@pytest.fixture
def scripted_model(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., ScriptedModel]]:
    """Make scripted models: `scripted_model(["a step", ...])`, with all that `ScriptedModel` takes.

    At the end of the test each of them must have been asked for all of its steps, and no more.
    """
    from agentkit.models.scripted import ScriptedModel

    made: list[ScriptedModel] = []

    def make(script: Any, **options: Any) -> ScriptedModel:
        made.append(ScriptedModel(script, **options))
        return made[-1]

    yield make
    if not request.node.stash.get(_HAS_FAILED, False):
        for model in made:
            model.assert_consumed()


@pytest.fixture
def forbid_real_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no connection out of this machine: each fails at once, and says what to do."""
    from agentkit.testing.wire.forbidden import Forbidding
    from agentkit.testing.wire.intercept import intercepting
    from agentkit.testing.wire.sockets import forbidding_sockets

    forbidding = Forbidding(request.config.getini(_HOSTS))
    with forbidding_sockets(forbidding), intercepting(forbidding):
        yield


@pytest.fixture
def wire_cassette(request: pytest.FixtureRequest) -> Iterator[Player | Recorder]:
    """Replay the HTTP traffic of the test from `cassettes/MODULE/TEST.json` beside its file.

    TEST has the names of the test, of its class and of its parameters.

    Requests must be the recorded ones, to the last byte of their bodies: a prefix that has changed
    fails the test. So does a recorded request that is not made. `--agentkit-record` records; no
    key, token or cookie is written down.
    """
    from agentkit.testing.wire.cassette import Player, Recorder
    from agentkit.testing.wire.intercept import intercepting
    from agentkit.testing.wire.secrets import Scrubber
    from agentkit.testing.wire.sockets import open_sockets

    marker = request.node.get_closest_marker("wire_cassette")
    given = {} if marker is None else marker.kwargs
    path = _cassette_path(request, given.get("name"))
    scrubber = Scrubber([*request.config.getini(_SECRETS), *given.get("secrets", ())])
    mode = request.config.getoption(_RECORD)
    with ExitStack() as stack:
        if mode == "all" or (mode == "new" and not path.exists()):
            recorder = Recorder(path, scrubber)
            stack.enter_context(open_sockets())
            stack.enter_context(intercepting(recorder))
            yield recorder
            if not request.node.stash.get(_HAS_FAILED, False):
                recorder.save()
            return
        player = Player(path, scrubber)
        stack.enter_context(intercepting(player))
        yield player
    if player.left and not request.node.stash.get(_HAS_FAILED, False):
        left = ", ".join(each.name for each in player.left)
        pytest.fail(f"recorded in {path}, and not asked for: {left}", pytrace=False)


def _cassette_path(request: pytest.FixtureRequest, name: str | None) -> Path:
    return request.path.parent / "cassettes" / request.path.stem / f"{name or _own(request)}.json"


def _own(request: pytest.FixtureRequest) -> str:
    """Return a file name that no other test of the module has."""
    test = request.node.name
    if request.cls is not None:
        test = f"{request.cls.__qualname__}.{test}"
    if (plain := _PLAIN_NAME.fullmatch(test)) is not None and len(test) <= _LONGEST_NAME:
        return "-".join(part for part in plain.groups() if part is not None)
    readable = re.sub(r"[^\w.-]+", "-", test)[:_LONGEST_NAME].strip("-")
    return f"{readable}-{hashlib.sha256(test.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"


def _is_forbidden(config: pytest.Config) -> bool:
    switched = os.environ.get("AGENTKIT_FORBID_REAL_CALLS", "")
    return bool(config.getini(_FORBID)) or switched.lower() in ("1", "true", "yes", "on")


def _is_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")
