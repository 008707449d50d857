"""The options of `agentkit-runtime serve`, by group.

Choices are written down here because their own modules import torch, and --help must be fast.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from agentkit_runtime.capacity.sizes import parse_bytes
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.routing.endpoints import require_endpoint

DTypeName = Literal["float32", "bfloat16", "float16"]
WeightsName = Literal["float", "float16", "int8", "int4"]
AttentionName = Literal["auto", "sdpa", "flashinfer"]
EvictionName = Literal["lru", "lfu", "slru", "hints"]
CompatName = Literal["vllm", "sglang", "none"]
LogFormatName = Literal["text", "json"]
LogLevelName = Literal["debug", "info", "warning", "error"]

_ENGINE = "Model and memory"
_ACCESS = "Who may use it"
_LIMITS = "How much is let in"
_WATCH = "What is seen of it"
_ROUTING = "What routers are told"


def parsed(parse: Callable[[str], object]) -> Callable[[str | None], str | None]:
    """Return a callback that refuses what `parse` refuses, with its words."""

    def check(text: str | None) -> str | None:
        if text is not None:
            try:
                parse(text)
            except ValueError as error:
                raise typer.BadParameter(str(error)) from error
        return text

    return check


def _named(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        if not name.strip():
            raise typer.BadParameter(f"a name that requests can use, got {name!r}")
    return names


def _size_of_body(text: str) -> None:
    if parse_bytes(text) < 1:
        raise ValueError(
            f"a body has at least one byte, got {text!r}: with 0 nothing could be asked"
        )


def _of(group: str) -> Callable[..., Any]:
    def option(help: str, *flags: str, **more: Any) -> Any:
        return typer.Option(*flags, help=help, rich_help_panel=group, **more)

    return option


_engine, _access, _limit, _watch = _of(_ENGINE), _of(_ACCESS), _of(_LIMITS), _of(_WATCH)
_routing = _of(_ROUTING)
_FILE = {"dir_okay": False}

ModelName = Annotated[
    list[str] | None,
    typer.Option(
        help="A further name that requests may use; the first is the one in answers.",
        callback=_named,
        show_default="none",
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]

# -- model and memory --------------------------------------------------------------------------

Slots = Annotated[
    int | None, _engine("KV slots (tokens) in the pool.", min=16, show_default="auto")
]
Threads = Annotated[int | None, _engine("Compute threads.", min=1, show_default="all cores")]
Device = Annotated[
    str | None, _engine("Device of torch, e.g. cpu or cuda:1.", show_default="CUDA if there is")
]
DType = Annotated[
    DTypeName | None,
    _engine("What is computed in.", show_default="float32 on CPU, bfloat16 on CUDA"),
]
Weights = Annotated[
    WeightsName | None,
    _engine("How weights are stored.", show_default="float16 on x86 CPUs, else as computed"),
]
Adapter = Annotated[
    Path | None,
    _engine(
        "Folder of a LoRA adapter in PEFT's format.",
        exists=True,
        file_okay=False,
        show_default="none",
    ),
]
KvDType = Annotated[
    str | None,
    _engine(
        "Format of stored keys and values: float32, bfloat16, float16, fp8, fp8_e5m2, int8 or "
        "int4.",
        callback=parsed(KvFormat.parse),
        show_default="as computed",
    ),
]
Attention = Annotated[AttentionName, _engine("Which kernels read the KV.")]
Eviction = Annotated[EvictionName, _engine("Which cached prefixes leave first.")]
PinnedTokens = Annotated[
    int | None,
    _engine("Tokens a tenant may pin.", min=0, show_default="a quarter of the pool"),
]
AllPinnedTokens = Annotated[
    int | None, _engine("Tokens in pins of all tenants.", min=0, show_default="half of the pool")
]
HostCache = Annotated[
    str | None,
    _engine(
        "Host memory for KV that leaves the pool, e.g. 4GB.",
        callback=parsed(parse_bytes),
        show_default="none; 1GiB with --disk-cache",
    ),
]
DiskCache = Annotated[
    Path | None,
    _engine("Folder for KV that outlives the server.", file_okay=False, show_default="none"),
]
DiskCacheSize = Annotated[
    str | None,
    _engine("Most that --disk-cache may take.", callback=parsed(parse_bytes), show_default="16GiB"),
]

# -- who may use it ----------------------------------------------------------------------------

Keys = Annotated[
    Path | None,
    _access(
        "File of API keys, made by `agentkit-runtime keys add`. Without it everybody is let in, "
        "and the server listens on this machine only.",
        envvar="AGENTKIT_RUNTIME_KEYS",
        show_default="none",
        **_FILE,
    ),
]
InsecureOpen = Annotated[
    bool, _access("Let everybody who can reach --host in, without a key.", "--insecure-open")
]
TlsCert = Annotated[
    Path | None,
    _access("PEM file of a certificate and its chain: serves https.", show_default="none", **_FILE),
]
TlsKey = Annotated[
    Path | None, _access("PEM file of the key of --tls-cert.", show_default="none", **_FILE)
]
CorsOrigin = Annotated[
    list[str] | None,
    _access(
        "Origin whose web pages may use the server, e.g. https://app.example.com; may be repeated.",
        show_default="none",
    ),
]
NamespaceKey = Annotated[
    Path | None,
    _access(
        "File of the secret that separates tenants in the cache, made when it is not there.",
        show_default="beside --disk-cache, else new with each start",
        **_FILE,
    ),
]

# -- how much is let in ------------------------------------------------------------------------

MaxBody = Annotated[
    str, _limit("Largest body of a request; others get 413.", callback=parsed(_size_of_body))
]
MaxRequests = Annotated[int, _limit("Requests answered at a time; others get 429.", min=1)]
MaxWaiting = Annotated[int, _limit("Requests that may wait for the model; others get 429.", min=1)]
BatchPressure = Annotated[
    float, _limit("From this pressure on, requests of the batch class get 429.", min=0, max=1)
]
Drain = Annotated[
    float, _limit("Seconds that answers may go on after the server was told to stop.", min=0)
]

# -- what is seen of it ------------------------------------------------------------------------

MetricsCompat = Annotated[
    CompatName, _watch("Whose metric names /metrics has beside its own, for routers.")
]
OpenMetrics = Annotated[
    bool, _watch("Serve /metrics without a key; else to admins only.", "--open-metrics")
]
TenantMetrics = Annotated[bool, _watch("Label metrics by tenant.", "--tenant-metrics")]
Otel = Annotated[
    bool, _watch("Trace requests with OpenTelemetry, as its environment says.", "--otel")
]
LogFormat = Annotated[LogFormatName, _watch("Form of the lines on stderr.")]
LogLevel = Annotated[
    LogLevelName | None,
    _watch(
        "The least that is logged; info has a line a request.",
        show_default="warning; with json info",
    ),
]
LastRequests = Annotated[int, _watch("Requests that are kept to look at.", min=4, max=100_000)]

# -- what routers are told ---------------------------------------------------------------------

KvEvents = Annotated[
    str | None,
    _routing(
        "Publish which blocks are cached over ZeroMQ at this address, e.g. tcp://127.0.0.1:5557. "
        "It has the token ids of all prompts: whoever can connect reads them.",
        callback=parsed(require_endpoint),
        show_default="none",
    ),
]
KvEventsReplay = Annotated[
    str | None,
    _routing(
        "Address where routers ask for events that they missed.",
        callback=parsed(require_endpoint),
        show_default="none",
    ),
]
KvEventsTopic = Annotated[
    str, _routing("Topic of the events; routers filter by it.", show_default="none")
]
