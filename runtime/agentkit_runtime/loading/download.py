"""Downloads one file over HTTP and goes on where it was cut off."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import httpx2
import tenacity

from agentkit_runtime.loading.progress import Advance

_TIMEOUT = httpx2.Timeout(60.0, connect=20.0)
_ATTEMPTS = 6
_CHUNK_BYTES = 256 * 1024
_WORTH_A_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})


class DownloadFailed(Exception):
    """The file could not be fetched from this address."""


def download(
    url: str,
    part: Path,
    *,
    total_bytes: int,
    advance: Advance,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch `url` into `part`, which may hold the beginning of it already.

    On return `part` has exactly `total_bytes` bytes; whether they are the right ones is for the
    caller to check. A broken connection is tried again from where it broke, with rising waits.
    Raises `DownloadFailed` when that does not help, or when the server sends another number of
    bytes; what was received stays in `part`.
    """
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((httpx2.TransportError, _TryAgain)),
        wait=tenacity.wait_exponential(multiplier=0.5, max=20.0) + tenacity.wait_random(0.0, 0.5),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        reraise=True,
        sleep=sleep,
    )
    try:
        with httpx2.Client(follow_redirects=True, timeout=_TIMEOUT) as client:
            retrying(_fetch, client, url, part, total_bytes, advance)
    except (httpx2.HTTPError, httpx2.InvalidURL, _TryAgain) as error:
        raise DownloadFailed(f"{type(error).__name__}: {error}") from error


class _TryAgain(Exception):
    """The server answered, but not with the file; another attempt may help."""


def _fetch(client: httpx2.Client, url: str, part: Path, total_bytes: int, advance: Advance) -> None:
    present = part.stat().st_size if part.exists() else 0
    if present > total_bytes:
        present = 0
    if present == total_bytes:
        advance(present)
        return
    # Compressed transfer would count other bytes than the file has.
    headers = {"Accept-Encoding": "identity"}
    if present:
        headers["Range"] = f"bytes={present}-"
    with client.stream("GET", url, headers=headers) as response:
        start = _start_of(response, present, part)
        with part.open("r+b" if start else "wb") as file:
            file.seek(start)
            file.truncate()
            _receive(response, file.write, start, total_bytes, advance)
    received = part.stat().st_size
    if received != total_bytes:
        raise _TryAgain(f"the server sent {received} of {total_bytes} bytes")


def _start_of(response: httpx2.Response, present: int, part: Path) -> int:
    """Where in the file the response's body begins."""
    status = response.status_code
    if status == HTTPStatus.PARTIAL_CONTENT:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {present}-"):
            part.unlink(missing_ok=True)
            raise _TryAgain("the server sent another range than it was asked for")
        return present
    if status == HTTPStatus.OK:
        return 0
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        part.unlink(missing_ok=True)
        raise _TryAgain("the server's file is shorter than what is already here")
    if status in _WORTH_A_RETRY:
        raise _TryAgain(f"the server answered {status}")
    raise DownloadFailed(f"the server answered {status} {response.reason_phrase}")


def _receive(
    response: httpx2.Response,
    write: Callable[[bytes], object],
    start: int,
    total_bytes: int,
    advance: Advance,
) -> None:
    present = start
    advance(present)
    for chunk in response.iter_bytes(_CHUNK_BYTES):
        present += len(chunk)
        if present > total_bytes:
            raise DownloadFailed(f"the server's file is larger than {total_bytes} bytes")
        write(chunk)
        advance(present)
