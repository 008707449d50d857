"""One layer of a pool, in every format: what is written is what is read, slot by slot."""

from __future__ import annotations

import pytest
import torch

from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.pool import KvStorage, StoredLayer

FORMATS = list(KvFormat)
N_SLOTS, KV_HEADS, HEADS, DIM = 96, 2, 6, 16


def layer_of(kv_format: KvFormat, dtype: torch.dtype = torch.float32) -> StoredLayer:
    storage = KvStorage(
        n_layers=2,
        n_slots=N_SLOTS,
        n_kv_heads=KV_HEADS,
        head_dim=DIM,
        kv_format=kv_format,
        compute_dtype=dtype,
    )
    for plane in storage.planes:
        plane.view(torch.uint8).fill_(0xFF)  # NaN or nonsense: what nobody wrote
    return storage.layer(1)


def draw(n: int, heads: int = KV_HEADS, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, heads, DIM, generator=torch.Generator().manual_seed(seed)) * 2


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_write_returns_what_read_gives(kv_format: KvFormat, dtype: torch.dtype) -> None:
    layer = layer_of(kv_format, dtype)
    k, v = layer.write(torch.arange(7, 20), draw(13).to(dtype), draw(13, seed=1).to(dtype))
    read_k, read_v = layer.read(7, 13)
    assert k.dtype is v.dtype is read_k.dtype is read_v.dtype is dtype
    assert k.shape == read_k.shape == (13, KV_HEADS, DIM)
    assert torch.equal(k, read_k)
    assert torch.equal(v, read_v)


@pytest.mark.parametrize("kv_format", FORMATS)
@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 31, 32, 33])
def test_a_token_does_not_depend_on_how_many_are_written_with_it(
    kv_format: KvFormat, length: int
) -> None:
    """R29: lengths around multiples of a block."""
    k, v = draw(length), draw(length, seed=1)
    at_once, one_by_one = layer_of(kv_format), layer_of(kv_format)
    at_once.write(torch.arange(3, 3 + length), k, v)
    for index in range(length):
        one_by_one.write(torch.tensor([3 + index]), k[index : index + 1], v[index : index + 1])
    expected, found = at_once.read(3, length), one_by_one.read(3, length)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)
        assert a.isfinite().all()


@pytest.mark.parametrize("kv_format", FORMATS)
def test_scattered_slots_are_read_in_any_cut(kv_format: KvFormat) -> None:
    """R13: slots are single tokens, whatever the order in which they were given out."""
    generator = torch.Generator().manual_seed(5)
    slots = torch.randperm(N_SLOTS, generator=generator)[:40]
    layer = layer_of(kv_format)
    k, v = layer.write(slots, draw(40), draw(40, seed=1))
    gathered = layer.gather(slots)
    assert torch.equal(gathered[0], k)
    assert torch.equal(gathered[1], v)
    for row, slot in enumerate(slots.tolist()):
        one_k, one_v = layer.read(slot, 1)
        assert torch.equal(one_k[0], k[row])
        assert torch.equal(one_v[0], v[row])


@pytest.mark.parametrize("kv_format", FORMATS)
def test_a_write_changes_no_other_slot(kv_format: KvFormat) -> None:
    layer = layer_of(kv_format)
    layer.write(torch.arange(N_SLOTS), draw(N_SLOTS), draw(N_SLOTS, seed=1))
    before = [part.clone() for part in layer.read(0, N_SLOTS)]
    layer.write(torch.tensor([50, 10]), draw(2, seed=2), draw(2, seed=3))
    others = torch.ones(N_SLOTS, dtype=torch.bool)
    others[[50, 10]] = False
    for old, new in zip(before, layer.read(0, N_SLOTS), strict=True):
        assert torch.equal(old[others], new[others])
        assert not torch.equal(old[~others], new[~others])


@pytest.mark.parametrize(
    ("kv_format", "error"),
    [
        (KvFormat.FLOAT32, 1e-6),
        (KvFormat.BFLOAT16, 0.005),
        (KvFormat.FLOAT16, 0.001),
        (KvFormat.FP8_E4M3, 0.04),
        (KvFormat.FP8_E5M2, 0.08),
        (KvFormat.INT8, 0.01),
        (KvFormat.INT4, 0.1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_queries_have_nearly_the_products_with_keys_that_they_had(
    kv_format: KvFormat, error: float, dtype: torch.dtype
) -> None:
    """Error of a product over the lengths of the two, root of the mean square."""
    k, q = draw(64).to(dtype), draw(64, HEADS, seed=1).to(dtype)
    layer = layer_of(kv_format, dtype)
    stored, _ = layer.write(torch.arange(64), k, k)
    turned = layer.queries(q)
    assert turned.dtype is dtype
    assert turned.shape == q.shape

    def products(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        grouped = queries.double().view(64, KV_HEADS, HEADS // KV_HEADS, DIM)
        return torch.einsum("ngad,mgd->gamn", grouped, keys.double())

    sizes = q.double().norm(dim=-1).mean() * k.double().norm(dim=-1).mean()
    difference = products(turned, stored) - products(q, k)
    assert float(difference.square().mean().sqrt() / sizes) < error + 0.003 * (
        dtype != q.float().dtype
    )


def test_a_centre_leaves_keys_smaller_and_attention_as_it_was() -> None:
    """Every score of a query loses the same, its product with the centre."""
    centre = torch.randn(1, KV_HEADS, DIM, generator=torch.Generator().manual_seed(8)) * 5
    k, q = draw(64) + centre[0], draw(1, KV_HEADS, seed=1)

    def stored(key_centre: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        storage = KvStorage(
            n_layers=1,
            n_slots=64,
            n_kv_heads=KV_HEADS,
            head_dim=DIM,
            kv_format=KvFormat.INT4,
            key_centre=key_centre,
        )
        layer = storage.layer(0)
        keys, _ = layer.write(torch.arange(64), k, k)
        return keys, scores(layer.queries(q), keys)

    def scores(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        found = torch.einsum("qhd,nhd->qhn", queries, keys)
        return found - found.mean(-1, keepdim=True)  # softmax sees no more of them

    exact = scores(q, k)
    (plain_keys, plain), (centred_keys, centred) = stored(None), stored(centre)
    assert float(centred_keys.abs().mean()) < float(plain_keys.abs().mean()) / 2
    assert float((centred - exact).std() / exact.std()) < 0.1
    assert float((centred - exact).std()) < float((plain - exact).std()) / 1.5


@pytest.mark.parametrize("kv_format", [KvFormat.FLOAT16, KvFormat.INT8])
def test_a_format_that_turns_no_keys_takes_no_centre(kv_format: KvFormat) -> None:
    with pytest.raises(ValueError, match=f"a pool of {kv_format} stores keys as they are"):
        KvStorage(
            n_layers=1,
            n_slots=4,
            n_kv_heads=KV_HEADS,
            head_dim=DIM,
            kv_format=kv_format,
            key_centre=torch.zeros(1, KV_HEADS, DIM),
        )
