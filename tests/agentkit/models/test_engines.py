"""One engine per process and model."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentkit.errors import ConfigurationError
from agentkit.models.engines import EngineRegistry, Options
from agentkit.models.local import LocalModel, engine_registry


class FakeEngine:
    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.closed = 0
        self.was_closed = threading.Event()

    def close(self) -> None:
        self.closed += 1
        self.was_closed.set()


class Loader:
    """Counts loads; each waits for the gate."""

    def __init__(self) -> None:
        self.loads: list[str] = []
        self.started = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.errors: list[Exception] = []

    def __call__(self, spec: str, options: Options) -> FakeEngine:
        self.loads.append(spec)
        self.started.set()
        assert self.gate.wait(30)
        if self.errors:
            raise self.errors.pop()
        return FakeEngine(spec)


async def test_concurrent_callers_share_one_load() -> None:
    loader = Loader()
    registry = EngineRegistry(loader)

    engines = await asyncio.gather(*(registry.get("m", {}) for _ in range(5)))

    assert loader.loads == ["m"]
    assert len({id(engine) for engine in engines}) == 1


def test_event_loops_in_several_threads_share_one_engine() -> None:
    loader = Loader()
    loader.gate.clear()
    registry = EngineRegistry(loader)

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(lambda: asyncio.run(registry.get("m", {}))) for _ in range(4)]
        assert loader.started.wait(30)
        loader.gate.set()
        engines = {id(future.result(timeout=10)) for future in asked}

    assert loader.loads == ["m"]
    assert len(engines) == 1


async def test_a_cancelled_caller_does_not_stop_the_load_for_others() -> None:
    loader = Loader()
    loader.gate.clear()
    registry = EngineRegistry(loader)
    first = asyncio.create_task(registry.get("m", {}))
    second = asyncio.create_task(registry.get("m", {}))
    await asyncio.to_thread(loader.started.wait, 30)

    first.cancel()
    await asyncio.wait([first], timeout=30)
    loader.gate.set()

    assert first.cancelled()
    assert (await asyncio.wait_for(second, 30)).spec == "m"


async def test_after_a_failed_load_the_next_caller_tries_again() -> None:
    loader = Loader()
    loader.errors.append(OSError("disk gone"))
    registry = EngineRegistry(loader)

    with pytest.raises(OSError, match="disk gone"):
        await registry.get("m", {})

    assert (await registry.get("m", {})).spec == "m"


async def test_other_options_for_a_loaded_model_are_refused() -> None:
    registry = EngineRegistry(Loader())
    await registry.get("m", {"threads": 1})

    assert await registry.get("m", {"threads": 1})
    with pytest.raises(ConfigurationError, match=r"threads': 1.*threads': 2"):
        await registry.get("m", {"threads": 2})


async def test_one_file_is_one_engine_however_its_path_is_written(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    loader = Loader()
    registry = EngineRegistry(loader)

    first = await registry.get(str(file), {})
    second = await registry.get(f"{tmp_path}/../{tmp_path.name}/m.gguf", {})

    assert first is second
    assert loader.loads == [str(file.resolve())]


async def test_closing_closes_every_engine_once_and_later_callers_get_new_ones() -> None:
    registry = EngineRegistry(Loader())
    engine = await registry.get("m", {})

    registry.close()
    registry.close()

    assert engine.closed == 1
    assert await registry.get("m", {}) is not engine


async def test_an_engine_that_is_still_loading_is_closed_when_it_is_there() -> None:
    loader = Loader()
    loader.gate.clear()
    registry = EngineRegistry(loader)
    asked = asyncio.create_task(registry.get("m", {}))
    await asyncio.to_thread(loader.started.wait, 30)

    registry.close()
    loader.gate.set()

    engine = await asyncio.wait_for(asked, 10)
    assert await asyncio.to_thread(engine.was_closed.wait, 10)
    assert engine.closed == 1


def test_all_local_models_of_a_process_use_one_registry() -> None:
    assert LocalModel("a")._registry is LocalModel("b")._registry is engine_registry()


def test_a_local_model_with_an_option_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"no option 'max_slot'; did you mean 'max_slots'"):
        LocalModel("smollm2", max_slot=5)
