"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Equal runs try equal cases; HYPOTHESIS_PROFILE=default looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


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
