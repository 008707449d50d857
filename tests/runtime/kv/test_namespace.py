from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import agentkit_runtime.kv.namespace as namespace_module
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.namespace import Identity, NamespaceKeys, namespace_digest
from agentkit_runtime.kv.scope import Scope

KEY = b"k" * 32
IDENTITY = Identity(
    weights="w", dtype="float32", kv_dtype="float32", tokenizer="t", template="c", adapter=None
)


def digest(
    tenant: str = "a",
    permissions: tuple[str, ...] = (),
    identity: Identity = IDENTITY,
    key: bytes = KEY,
) -> bytes:
    return namespace_digest(key, tenant=tenant, permissions=permissions, identity=identity)


def test_the_same_caller_and_model_have_the_same_root() -> None:
    assert digest() == digest()
    assert len(digest()) == 32


def test_the_digest_is_the_same_in_every_process() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from agentkit_runtime.kv.namespace import Identity, namespace_digest\n"
        "i = Identity(weights='w', dtype='float32', kv_dtype='float32', tokenizer='t',"
        " template='c')\n"
        "print(namespace_digest(b'k' * 32, tenant='a', permissions=['x', 'y'], identity=i).hex())"
    )
    root = str(Path(namespace_module.__file__).parents[2])
    printed = subprocess.run(
        [sys.executable, "-c", code, root],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": "4242"},
        timeout=60,
    )
    assert printed.stdout.strip() == digest(permissions=("y", "x")).hex()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Identity)])
def test_every_part_of_the_identity_separates_roots(field: str, cache: KvCache) -> None:
    """R20. Faults: KV outlived a change of weights, LoRA or dtype; same tokens, wrong numbers."""
    other = dataclasses.replace(IDENTITY, **{field: "changed"})
    tokens = b"\1\0\0\0" * 8
    first = cache.acquire(digest(), tokens)
    cache.grow(first, 8)
    cache.commit(first, tokens)
    assert cache.peek(digest(identity=other), tokens) == 0
    assert cache.acquire(digest(identity=other), tokens).cached == 0
    assert cache.acquire(digest(), tokens).cached == 8


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (digest("org_1", ("2345",)), digest("org_12345", ("",))),
        (digest("org_1", ("2345",)), digest("org_12345", ())),
        (digest("a", ("b", "c")), digest("a", ("bc",))),
        (digest("a", ()), digest("a", ("",))),
        (digest("a"), digest("a", key=b"x" * 32)),
        (
            digest(identity=dataclasses.replace(IDENTITY, weights="ab", dtype="c")),
            digest(identity=dataclasses.replace(IDENTITY, weights="a", dtype="bc")),
        ),
        (digest(), digest(identity=dataclasses.replace(IDENTITY, adapter=""))),
    ],
)
def test_inputs_that_look_alike_when_joined_have_different_roots(one: bytes, other: bytes) -> None:
    assert one != other


def test_permissions_are_a_set() -> None:
    assert digest("a", ("x", "y")) == digest("a", ("y", "x", "y"))
    assert digest("a", ("x",)) != digest("a", ("x", "y"))


def test_a_tenant_name_of_any_characters_has_a_root() -> None:
    assert digest("\ud800") != digest("?")


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes, got 3"):
        digest(key=b"abc")


def test_one_string_is_not_a_list_of_permissions() -> None:
    with pytest.raises(ValueError, match="list of strings, got the string 'admin'"):
        namespace_digest(KEY, tenant="a", permissions="admin", identity=IDENTITY)


# -- rotation


def test_after_a_rotation_nothing_under_the_old_key_is_matched(cache: KvCache) -> None:
    """R20, R22: a key that got out names nothing any more."""
    tokens = b"\1\0\0\0" * 8
    keys = NamespaceKeys(KEY)
    new = keys.rotate(b"n" * 32)
    old_root, new_root = (
        k.digest(tenant="a", permissions=(), identity=IDENTITY) for k in (keys, new)
    )
    lease = cache.acquire(old_root, tokens)
    cache.grow(lease, 8)
    cache.commit(lease, tokens)
    assert cache.acquire(new_root, tokens).cached == 0
    cache.release(lease)
    assert cache.peek(new_root, tokens) == 0


def test_a_salt_that_another_tenant_uses_opens_nothing(cache: KvCache) -> None:
    """R23: whatever a caller adds to its own digest, the tenant is in it."""
    tokens = b"\1\0\0\0" * 8
    lease = cache.acquire(digest("a", ("salt",)), tokens)
    cache.grow(lease, 8)
    cache.commit(lease, tokens)
    assert cache.peek(digest("b", ("salt",)), tokens) == 0
    assert cache.peek(digest("b", ("salt",)), tokens, scope=Scope(tenant="a", session="s")) == 0
    assert cache.peek(digest("a", ("salt",)), tokens) == 8


def test_an_epoch_separates_weights_that_were_changed_in_place(cache: KvCache) -> None:
    """R20."""
    epochs = [digest(identity=dataclasses.replace(IDENTITY, epoch=n)) for n in range(3)]
    assert len(set(epochs)) == 3
    assert epochs[0] == digest()


def test_keys_are_checked_and_not_shown() -> None:
    keys = NamespaceKeys(KEY).rotate(b"secret of sixteen")
    assert "secret of" not in repr(keys)
    with pytest.raises(ValueError, match="used twice"):
        keys.rotate(KEY)
    with pytest.raises(ValueError, match="at least 16 bytes, got 5"):
        NamespaceKeys(b"short")
