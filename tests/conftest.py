"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Equal runs try equal cases; HYPOTHESIS_PROFILE=searching looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None, print_blob=True)
settings.load_profile(_PROFILE := os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

if _PROFILE == "repeatable":
    # Hypothesis also tries the constants of all modules imported so far: which those are depends
    # on the files that the same worker ran before, and each edit of one changes every test's cases.
    assert isinstance(providers.HypothesisProvider._local_constants, cached_property)
    providers.HypothesisProvider._local_constants = providers.Constants()  # type: ignore[assignment]


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The bundled default model, fetched on first use into the user's cache."""
    from agentkit_runtime.loading import locate

    return Path(locate("smollm2").weights[0])


@pytest.fixture(autouse=True)
def logging_as_found() -> Iterator[None]:
    """What a test configures of logging (a command that sets it up, too) ends with the test."""
    logging.getLogger("agentkit_runtime")  # one that a command sets up is there before it
    loggers = [logging.getLogger(), *_existing_loggers()]
    before = [(logger, logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, propagate, handlers in before:
        if logger.level != level:  # each setting empties a cache of every logger
            logger.setLevel(level)
        logger.propagate = propagate
        logger.handlers[:] = handlers


def _existing_loggers() -> list[logging.Logger]:
    known = list(logging.root.manager.loggerDict.values())
    return [logger for logger in known if isinstance(logger, logging.Logger)]
