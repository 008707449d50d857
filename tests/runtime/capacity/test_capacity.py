"""How many tokens fit: exact bytes, known models, and what a machine or container leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentkit_runtime.capacity import memory
from agentkit_runtime.capacity.memory import chosen_size, fitting_size, free_host_bytes
from agentkit_runtime.capacity.plan import WEIGHT_BITS, KvPlan, n_weights, plan_kv, weight_bytes
from agentkit_runtime.capacity.resolve import resolve_shape
from agentkit_runtime.capacity.shapes import SHAPES
from agentkit_runtime.capacity.sizes import parse_bytes, parse_tokens
from agentkit_runtime.cli import app
from agentkit_runtime.errors import ModelNotFound, UnsupportedModel
from agentkit_runtime.kv.format import KvFormat

GB = 10**9


def plan(model: str, **changes: object) -> KvPlan:
    values: dict[str, object] = {
        "memory_bytes": 80 * GB,
        "kv_format": KvFormat.FLOAT16,
        "weights": "bfloat16",
        "context": 4096,
        "shared": 1024,
    }
    return plan_kv(SHAPES[model], model=model, **{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "n_bytes"), [("llama-3.1-70b", 327_680), ("llama-2-13b", 819_200)]
)
def test_bytes_per_token_are_exact(model: str, n_bytes: int) -> None:
    assert plan(model).bytes_per_token == n_bytes


@pytest.mark.parametrize(
    ("kv_format", "scales_of_a_head"), [(KvFormat.INT8, 1), (KvFormat.FP8_E4M3, 128 // 16)]
)
def test_eight_bits_take_half_and_state_their_scales(
    kv_format: KvFormat, scales_of_a_head: int
) -> None:
    found = plan("llama-3.1-70b", kv_format=kv_format)

    assert found.bytes_per_token == 327_680 // 2 + found.scale_bytes_per_token
    assert found.scale_bytes_per_token == 80 * 8 * 2 * 2 * scales_of_a_head


@pytest.mark.parametrize(
    ("model", "n_stated"),
    [
        ("llama-2-13b", 13_015_864_320),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        ("mistral-7b-v0.3", 7_248_023_552),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-8b", 8_190_735_360),
        ("smollm2-135m", 134_515_008),
        ("smollm2-1.7b", 1_711_376_384),
        ("smollm3-3b", 3_075_098_624),
    ],
)
def test_known_shapes_have_the_parameters_that_their_repositories_state(
    model: str, n_stated: int
) -> None:
    assert n_weights(SHAPES[model]) == n_stated


def test_every_known_shape_is_checked() -> None:
    marks = test_known_shapes_have_the_parameters_that_their_repositories_state.pytestmark  # type: ignore[attr-defined]
    assert {name for name, _ in marks[0].args[1]} == set(SHAPES)


@pytest.mark.parametrize("weights", sorted(WEIGHT_BITS))
def test_weights_take_their_bits(weights: str) -> None:
    ratio = weight_bytes(SHAPES["llama-3.1-8b"], weights) / (
        8_030_261_248 * WEIGHT_BITS[weights] / 8
    )
    assert 1 <= ratio < 1.001


def test_users_are_whole_conversations_and_a_shared_prefix_is_stored_once() -> None:
    found = plan("llama-3.1-8b")
    free = 80 * GB - found.weight_bytes - 4 * GB

    assert found.tokens == free // 131_072
    assert found.users == found.tokens // 4096
    assert found.users_shared == (found.tokens - 1024) // 3072
    used = 1024 + found.users_shared * 3072
    assert used <= found.tokens < used + 3072


def test_weights_that_do_not_fit_leave_no_tokens() -> None:
    found = plan("llama-3.1-70b")
    assert (found.tokens, found.users, found.users_shared) == (0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"context": 200_000}, "context must be from 1 to the model's 131072, got 200000"),
        ({"context": 0}, "context must be"),
        ({"shared": 4096}, r"shared must be from 0 to context - 1 \(4095\), got 4096"),
        ({"reserve": 1.0}, "reserve must be"),
        ({"weights": "int3"}, "weights must be one of .*, got 'int3'"),
    ],
)
def test_impossible_numbers_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan("llama-3.1-8b", **changes)


@pytest.mark.parametrize(
    ("text", "n"),
    [("80GB", 80 * GB), ("24GiB", 24 << 30), ("1.5 gb", 1_500_000_000), ("512", 512)],
)
def test_memory_sizes_are_read(text: str, n: int) -> None:
    assert parse_bytes(text) == n


@pytest.mark.parametrize(("text", "n"), [("32k", 32_768), ("4096", 4096), ("1M", 1 << 20)])
def test_token_counts_are_read(text: str, n: int) -> None:
    assert parse_tokens(text) == n


@pytest.mark.parametrize("text", ["", "many", "80XB", "-1GB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        parse_bytes(text)
    with pytest.raises(ValueError, match="such as"):
        parse_tokens(text)


# -- where shapes come from ------------------------------------------------------------------------

QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": 36,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize("ask_for", ["file", "folder"])
def test_a_config_is_enough_to_plan(tmp_path: Path, ask_for: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(QWEN3))

    _, config = resolve_shape(str(file if ask_for == "file" else tmp_path))

    assert n_weights(config) == n_weights(SHAPES["qwen3-8b"])


def test_the_bundled_model_has_the_shape_that_its_file_says(smollm2_gguf: Path) -> None:
    label, known = resolve_shape("smollm2")
    _, read = resolve_shape(str(smollm2_gguf))

    assert label == "smollm2-135m"
    assert (n_weights(read), read.max_position) == (n_weights(known), known.max_position)


def test_what_is_no_model_is_refused_with_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"llama-3\.1-8b"):
        resolve_shape("no/such-model")
    broken = tmp_path / "config.json"
    broken.write_text("[")
    with pytest.raises(UnsupportedModel, match="is not JSON"):
        resolve_shape(str(broken))
    broken.write_text("[]")
    with pytest.raises(UnsupportedModel, match="is a list"):
        resolve_shape(str(tmp_path))


# -- the command -----------------------------------------------------------------------------------


def command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["kv-plan", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_prints_what_fits() -> None:
    code, out, _ = command("llama-3.1-8b", "--memory", "80GB", "--kv-dtype", "fp8")

    assert code == 0
    assert "73,728 bytes per token (fp8_e4m3, of them 8,192 scales)" in out
    assert "812,973" in out
    assert "24 with 32,768 tokens each" in out
    assert "28 when they share the first 4,096" in out


def test_the_command_prints_json() -> None:
    code, out, _ = command("llama-3.1-70b", "--memory", "180GB", "--json", "--weights", "int8")

    found = json.loads(out)
    assert code == 0
    assert found["bytes_per_token"] == 327_680
    assert found["tokens"] > 0


def test_the_command_says_when_the_weights_do_not_fit() -> None:
    code, out, _ = command("llama-3.1-70b", "--memory", "80GB")
    assert code == 0
    assert "take smaller weights" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", "--memory", "1GB"), "none of the known shapes"),
        (("llama-3.1-8", "--memory", "1GB"), "did you mean 'llama-3.1-8b'?"),
        (("smollm2", "--memory", "much"), "a memory size is"),
        (("smollm2", "--memory", "1GB", "--kv-dtype", "fp9"), "kv_dtype must be one of"),
        (("smollm2", "--memory", "1GB", "--shared", "8k"), "shared must be"),
    ],
)
def test_wrong_usage_is_a_sentence(arguments: tuple[str, ...], message: str) -> None:
    code, _, err = command(*arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert message in err


# -- at start --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "on_host", "slots", "why"),
    [
        (1_000_000, True, 976, "25% of free memory"),
        (1_000_000, False, 3515, "90% of free memory"),
        (100 * GB, True, 65_536, "upper bound"),
        (1000, True, 256, "the fewest"),
    ],
)
def test_the_pool_follows_free_memory(free: int, on_host: bool, slots: int, why: str) -> None:
    size = fitting_size(free, bytes_per_token=256, kv_dtype="float32", on_host=on_host)

    assert size.slots == slots
    assert why in str(size)


def test_a_pool_says_how_large_it_is_and_why() -> None:
    size = chosen_size(1000, bytes_per_token=46_080, kv_dtype="float32")
    assert str(size) == (
        "KV pool: 1,000 tokens in float32, 0.05 GB (46,080 bytes per token; max_slots)"
    )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 4000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    return tmp_path


def test_without_a_container_the_kernel_says_what_is_free(machine: Path) -> None:
    assert free_host_bytes() == 4000 * 1024
    (machine / "memory.max").write_text("max\n")
    assert free_host_bytes() == 4000 * 1024


def test_a_container_leaves_what_it_does_not_use_itself(machine: Path) -> None:
    (machine / "memory.max").write_text("3000000\n")
    assert free_host_bytes() == 3_000_000
    (machine / "memory.current").write_text("2500000\n")
    assert free_host_bytes() == 500_000
    (machine / "memory.stat").write_text("anon 5\ninactive_file 1000000\n")
    assert free_host_bytes() == 1_500_000
    (machine / "memory.current").write_text("9000000\n")
    assert free_host_bytes() == 0


def test_a_kernel_that_does_not_say_has_what_is_built_in(machine: Path) -> None:
    (machine / "meminfo").unlink()
    assert free_host_bytes() > 2**20
