"""`agentkit-runtime serve`: a model with the APIs of OpenAI and Anthropic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from agentkit_runtime.capacity.sizes import parse_bytes
from agentkit_runtime.cli import serve_options as options
from agentkit_runtime.cli.failures import DEFAULT_MODEL, Model, failures_as_exit_codes, say
from agentkit_runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from agentkit_runtime.kv.pins import PinQuota
    from agentkit_runtime.server.config import ServerConfig


def serve(
    model: Model = DEFAULT_MODEL,
    model_name: options.ModelName = None,
    host: options.Host = "127.0.0.1",
    port: options.Port = 8321,
    slots: options.Slots = None,
    threads: options.Threads = None,
    device: options.Device = None,
    dtype: options.DType = None,
    weights: options.Weights = None,
    adapter: options.Adapter = None,
    kv_dtype: options.KvDType = None,
    attention: options.Attention = "auto",
    eviction: options.Eviction = "hints",
    pinned_tokens: options.PinnedTokens = None,
    all_pinned_tokens: options.AllPinnedTokens = None,
    host_cache: options.HostCache = None,
    disk_cache: options.DiskCache = None,
    disk_cache_size: options.DiskCacheSize = None,
    keys: options.Keys = None,
    insecure_open: options.InsecureOpen = False,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    cors_origin: options.CorsOrigin = None,
    namespace_key: options.NamespaceKey = None,
    max_body: options.MaxBody = "16MiB",
    max_requests: options.MaxRequests = 1024,
    max_waiting: options.MaxWaiting = 256,
    batch_pressure: options.BatchPressure = 0.85,
    drain: options.Drain = 30.0,
    metrics_compat: options.MetricsCompat = "vllm",
    open_metrics: options.OpenMetrics = False,
    tenant_metrics: options.TenantMetrics = False,
    otel: options.Otel = False,
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = None,
    last_requests: options.LastRequests = 512,
    kv_events: options.KvEvents = None,
    kv_events_replay: options.KvEventsReplay = None,
    kv_events_topic: options.KvEventsTopic = "",
) -> None:
    """Serve MODEL with the APIs of OpenAI and Anthropic.

    Without --keys it is for this machine alone: everybody here may use it, nobody else can.
    """
    if disk_cache_size is not None and disk_cache is None:
        raise typer.BadParameter("--disk-cache-size does nothing without --disk-cache: give both")
    with failures_as_exit_codes():
        from agentkit_runtime.governing.gate import GateLimits
        from agentkit_runtime.governing.pressure import PressureLimits
        from agentkit_runtime.routing.options import RoutingOptions
        from agentkit_runtime.server.access import Access
        from agentkit_runtime.server.config import ServerConfig
        from agentkit_runtime.watching.options import WatchOptions

        try:
            config = ServerConfig(
                model=model,
                model_names=tuple(model_name or ()),
                host=host,
                port=port,
                engine={
                    "max_slots": slots,
                    "threads": threads,
                    "device": device,
                    "dtype": dtype,
                    "weights": weights,
                    "adapter": adapter,
                    "kv_dtype": kv_dtype,
                    "attention": attention,
                    "eviction": eviction,
                    "pin_quota": _pin_quota(pinned_tokens, all_pinned_tokens),
                    "host_cache_bytes": None if host_cache is None else parse_bytes(host_cache),
                    "disk_cache": disk_cache,
                    "disk_cache_bytes": (
                        None if disk_cache_size is None else parse_bytes(disk_cache_size)
                    ),
                },
                access=Access(
                    keys=keys,
                    insecure_open=insecure_open,
                    cors_origins=tuple(cors_origin or ()),
                    tls_cert=tls_cert,
                    tls_key=tls_key,
                ),
                namespace_key=namespace_key,
                limits=GateLimits(
                    max_requests=max_requests,
                    batch_pressure=batch_pressure,
                    pressure=PressureLimits(max_waiting=max_waiting),
                ),
                max_body_bytes=parse_bytes(max_body),
                drain_s=drain,
                watch=WatchOptions(
                    metrics_compat=metrics_compat,
                    open_metrics=open_metrics,
                    tenant_metrics=tenant_metrics,
                    otel=otel,
                    log_format=log_format,
                    log_level=log_level,
                    last_requests=last_requests,
                ),
                routing=RoutingOptions(
                    kv_events=kv_events, replay=kv_events_replay, topic=kv_events_topic
                ),
            )
            _run(config)
        except RuntimeFault:
            raise
        except ValueError as error:  # e.g. a device that this machine does not have
            raise typer.BadParameter(str(error)) from error


def _run(config: ServerConfig) -> None:
    from agentkit_runtime.server.run import run

    run(config, say)


def _pin_quota(per_tenant: int | None, total: int | None) -> PinQuota:
    from agentkit_runtime.kv.pins import PinQuota

    return PinQuota(per_tenant=per_tenant, total=total)
