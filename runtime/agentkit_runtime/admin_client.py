"""A client of the admin API, and of what tenants do with their own prefixes.

What the command line's `warm`, `pins`, `prune` and `top` are thin over. It imports nothing of the
server; answers are the documents of `api/admin/wire.py` and `watching/last.py`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx2

from agentkit_runtime.errors import RuntimeFault

Document = dict[str, Any]
"""A JSON object as the server sent it."""

TIMEOUT_S = 600.0
"""Of one call; pre-warming a long prefix takes that long on a small machine."""

CONNECT_S = 10.0


class ServerFault(RuntimeFault):
    """A server is not there, or said no. The message names it and what to do."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        """`code` is `error.code` of the server's answer."""
        super().__init__(message)
        self.code = code


class AdminClient:
    """Talks to one server. Not thread-safe; close it, or use it as a context manager.

    With `tenant` it acts for that tenant, which needs a key of the admin role; without, for the
    tenant of the key itself.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        tenant: str | None = None,
        ca: Path | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`ca` is a PEM file of certificates to trust besides the usual ones.

        Raises:
            ServerFault: `url` is none.
            OSError: `ca` cannot be read.
        """
        self.url = server_url(url)
        self._tenant = tenant
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx2.Client(
            base_url=self.url,
            headers=headers,
            timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
            verify=trusted(ca),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # -- looking -------------------------------------------------------------------------------

    def state(self, *, history: int = 0) -> Document:
        """Pool, scheduler, pressure and counts, with up to `history` samples of the last hour."""
        return self._call("GET", "/admin/v1/state", query={"history": history})

    def tree(self, *, limit: int = 300) -> Document:
        """The part of the tree that was used last."""
        return self._call("GET", "/admin/v1/tree", query={"limit": limit})

    def requests(self, *, after: int = 0, limit: int = 100) -> Document:
        """The last requests of all tenants, newest first."""
        return self._call("GET", "/admin/v1/requests", query={"after": after, "limit": limit})

    def pins(self, *, of_all: bool = False) -> list[Document]:
        """The tenant's pins, or those of all tenants; oldest first."""
        if of_all:
            path, query = "/admin/v1/pins", {}
        elif self._tenant is not None:
            path, query = "/admin/v1/pins", {"tenant": self._tenant}
        else:
            path, query = "/v1/agentkit/pins", {}
        found: list[Document] = self._call("GET", path, query=query)["data"]
        return found

    def sessions(self, *, limit: int = 300) -> list[Document]:
        """Sessions of the tenant that was named, the latest first; with an admin's key only."""
        query: dict[str, str | int] = {"limit": limit}
        if self._tenant is not None:
            query["tenant"] = self._tenant
        found: list[Document] = self._call("GET", "/admin/v1/sessions", query=query)["data"]
        return found

    # -- changing ------------------------------------------------------------------------------

    def prewarm(self, prefix: Mapping[str, object], **pin: object) -> Document:
        """Compute what requests that begin with `prefix` (messages, tools) will share.

        `pin`, `ttl_s` and `name` keep it; those that are None are left out.
        """
        wanted = {name: value for name, value in pin.items() if value is not None}
        return self._of_tenant("prewarm", {**prefix, **wanted})

    def prune(self, selector: Mapping[str, object]) -> Document:
        """Forget what `selector` names; see `api.admin.bodies.Prune`."""
        return self._of_tenant("prune", selector)

    def unpin(self, handle: str, *, of_all: bool = False) -> Document:
        """End a pin, the tenant's or anybody's."""
        front = "/admin/v1" if of_all or self._tenant is not None else "/v1/agentkit"
        return self._call("DELETE", f"{front}/pins/{quote(handle, safe='')}")

    def _of_tenant(self, action: str, body: Mapping[str, object]) -> Document:
        if self._tenant is None:
            return self._call("POST", f"/v1/agentkit/{action}", body=body)
        return self._call("POST", f"/admin/v1/{action}", body={**body, "tenant": self._tenant})

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Document:
        try:
            answer = self._http.request(method, path, params=query, json=body)
        except httpx2.HTTPError as error:
            raise unreachable(self.url, error) from error
        if answer.is_success:
            return self._document(answer)
        raise ServerFault(
            _refusal(self.url, answer.status_code, _message(answer), _code(answer)),
            code=_code(answer),
        )

    def _document(self, answer: httpx2.Response) -> Document:
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ServerFault(f"what is at {self.url} is no agentkit runtime: it sent no JSON")
        return document


def server_url(text: str) -> str:
    """The address of a server: http is added where no scheme is named, a `/v1` at the end is taken
    off, as clients of OpenAI's API have one.

    Raises:
        ServerFault: it is no address.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        named = parts.hostname is not None and parts.port != 0
    except ValueError:
        named = False
    if not named or parts.scheme not in ("http", "https"):
        raise ServerFault(f"{text!r} is no address of a server, such as http://127.0.0.1:8321")
    if parts.username is not None or parts.password is not None:
        raise ServerFault("an address with a password is not taken; give a key with --key-file")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"


def trusted(ca: Path | None) -> ssl.SSLContext | bool:
    """What connections over TLS are checked against. Raises OSError for a file that is none."""
    if ca is None:
        return True
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca)
    except OSError as error:
        raise OSError(f"{ca} has no certificates in PEM: {error}") from error
    return context


def unreachable(url: str, error: Exception) -> ServerFault:
    """What to say when a request got no answer."""
    if isinstance(error, httpx2.ConnectError):
        if "CERTIFICATE" in str(error).upper():
            return ServerFault(f"the certificate of {url} is not trusted ({error}); give --ca FILE")
        return ServerFault(
            f"no server answers at {url} ({error}); start one with `agentkit-runtime serve`, "
            "or check the address"
        )
    why = str(error) or type(error).__name__
    return ServerFault(f"{url} did not answer as a server does: {why}; is it http or https?")


def _refusal(url: str, status: int, message: str, code: str | None) -> str:
    match status:
        case 401:
            return (
                f"{url} wants a key, or another one ({message}); name its file with --key-file, "
                "or set AGENTKIT_RUNTIME_KEY"
            )
        case 403:
            return f"the key may not do that at {url}: {message}"
        case 404 if message == "Not Found" or code == "path_not_found":
            return f"what is at {url} is no agentkit runtime, or an older one: it answered 404"
        case _:
            return f"{url} answered {status}: {message}"


def _message(answer: httpx2.Response) -> str:
    """What an answer says that is an error, in one line."""
    try:
        error = answer.json()["error"]
        said = str(error["message"])
        param = error.get("param")
    except (ValueError, LookupError, TypeError, AttributeError):
        return answer.reason_phrase
    return said if param is None or param in said else f"{param}: {said}"


def _code(answer: httpx2.Response) -> str | None:
    try:
        return str(answer.json()["error"]["code"])
    except (ValueError, LookupError, TypeError):
        return None
