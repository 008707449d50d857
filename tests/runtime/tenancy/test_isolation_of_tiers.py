"""What left the device is as much a tenant's own as what is on it; time tells nothing, either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.kv.tiers.disk_file import BlockShape
from agentkit_runtime.kv.tiers.disk_open import open_disk
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from tests.runtime.service.scripted import wait_until
from tests.runtime.tenancy.house import House, Text, ask, open_house
from tests.runtime.tiers.support import Always

SECRET = "Ann's secret: " + " ".join(f"word{n}" for n in range(40))


def tiers_in(
    folder: Path | None, host_blocks: int = 1000
) -> Callable[[KvStorage], HostAndDiskTiers]:
    def make(storage: KvStorage) -> HostAndDiskTiers:
        shape = BlockShape(
            identity=b"i" * 32,
            kv_format=str(storage.format),
            bytes_per_token=storage.bytes_per_token,
        )
        disk = None if folder is None else open_disk(folder, shape, max_bytes=1 << 30)
        return HostAndDiskTiers(
            storage, host_bytes=host_blocks * shape.n_bytes, worth=Always(), disk=disk
        )

    return make


def cached(house: House, name: str) -> tuple[int, int]:
    """Cached tokens of a tenant's question with ann's secret; and of them, restored ones."""
    before = house.service.stats().restored_tokens
    answer = ask(getattr(house, name), system=SECRET)
    assert answer.status_code == 200, answer.text
    found = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found, house.service.stats().restored_tokens - before


@pytest.mark.parametrize("who", ["ann", "zoe"])
def test_what_an_earlier_process_left_on_disk_is_flushed_with_its_tenant(
    smollm2_text: Text, tmp_path: Path, who: str
) -> None:
    """Also of a tenant that has no key any more, and though nobody has asked since the start."""
    options: dict[str, Any] = {"n_slots": 448, "tiers": tiers_in(tmp_path / "disk")}
    with open_house(smollm2_text, tmp_path, **options) as house:
        headers = {"Authorization": f"Bearer {house.keys['ann']}"}
        if who == "zoe":
            made = house.store.add(roles=frozenset({"user"}), tenant="zoe", now_s=0.0)
            headers = {"Authorization": f"Bearer {made.key}"}
        ask(house.nobody, system=SECRET, headers=headers)
    (tmp_path / "keys.db").unlink()
    body: dict[str, Any] = {"tenant": who}
    with open_house(smollm2_text, tmp_path, **options) as house:
        if who == "zoe":
            refused = house.root.post("/admin/v1/flush", json=body)
            assert refused.status_code == 404
            assert "unknown" in refused.json()["error"]["message"]
            body["unknown"] = True
        assert house.root.post("/admin/v1/flush", json=body).status_code == 200
        made = house.store.add(roles=frozenset({"user"}), tenant=who, now_s=0.0)
        headers = {"Authorization": f"Bearer {made.key}"}
        answer = ask(house.nobody, system=SECRET, headers=headers)
        assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def push_out(house: House) -> None:
    """Ann asks so much else that her secret leaves the device."""
    for n in range(4):
        assert ask(house.ann, system=f"Other {n} " + "filler " * 150).status_code == 200


def test_in_host_memory_it_is_the_tenants_own(smollm2_text: Text, tmp_path: Path) -> None:
    with open_house(smollm2_text, tmp_path, n_slots=448, tiers=tiers_in(None)) as house:
        ask(house.ann, system=SECRET)
        push_out(house)
        assert cached(house, "bob") == (0, 0)
        push_out(house)
        found, restored = cached(house, "ann")
        assert found >= restored > 0


def test_on_disk_it_is_the_tenants_own_also_after_a_restart(
    smollm2_text: Text, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    with open_house(smollm2_text, tmp_path, tiers=tiers_in(disk)) as house:
        ask(house.ann, system=SECRET)
    with open_house(smollm2_text, tmp_path, tiers=tiers_in(disk)) as house:
        wait_until(lambda: house.service.healthy)
        assert cached(house, "bob") == (0, 0)
        found, restored = cached(house, "ann")
        assert found >= restored > 0


# -- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_words", [5, 60])
def test_a_prompt_that_another_tenant_has_warm_costs_what_a_new_one_costs(
    house: House, n_words: int
) -> None:
    """In tokens computed and in steps of the engine, which is all that its time depends on.

    Exact, so one difference in any pair is found: no power to speak of. With real time and a stated
    power: runtime/bench/isolation_timing.py.
    """
    costs: dict[str, list[tuple[int, int, int]]] = {"warm": [], "cold": []}
    for n in range(8):
        # The same length either way: words that are one token each.
        warm, cold = (f"{kind} {n} " + "word " * n_words for kind in ("warm", "cold"))
        ask(house.ann, system=warm)
        for kind, text in (("warm", warm), ("cold", cold)):
            house.root.post("/admin/v1/flush", json={"tenant": "bob"})
            before = house.service.stats()
            usage = ask(house.bob, system=text).json()["usage"]
            after = house.service.stats()
            costs[kind].append(
                (
                    usage["prompt_tokens"],
                    after.computed_tokens - before.computed_tokens,
                    after.steps - before.steps,
                )
            )

    assert costs["warm"] == costs["cold"]
    assert costs["warm"][0][1] >= costs["warm"][0][0]
