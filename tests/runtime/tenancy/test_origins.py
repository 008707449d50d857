"""Names a server is asked by, pages that may use it, and TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.server.parts import assembled
from agentkit_runtime.server.run import _listening_socket, _running, _server, _url
from agentkit_runtime.service import ChatService
from tests.runtime.service.scripted import BOUND_S, Pace, Script, scripted_model, wait_until
from tests.runtime.tenancy.certificates import write_certificate
from tests.runtime.tenancy.house import ANSWERS, House, Text, ask, chat_body

APP = "https://app.example.com"
Serve = Callable[..., httpx2.Client]


@pytest.fixture(scope="module")
def served(smollm2_text: Text) -> Iterator[Serve]:
    """Serve one scripted model without keys, in different ways; gives clients."""
    with ExitStack() as running:
        pace = Pace(Script(smollm2_text[0], ANSWERS))
        service = ChatService(running.enter_context(scripted_model(*smollm2_text, pace)))

        def serve(**options: object) -> httpx2.Client:
            return running.enter_context(_client(service, **options))

        yield serve


@contextmanager
def _client(service: ChatService, **options: object) -> Iterator[httpx2.Client]:
    verify = options.pop("verify", True)
    host = str(options.pop("host", "127.0.0.1"))
    access = Access(**options)  # type: ignore[arg-type]
    config = ServerConfig(model="scripted", host=host, port=0, access=access)
    lifecycle = Lifecycle("ready")
    with (
        access.tls() as tls,
        assembled(service, config, lifecycle, model_ids=("scripted",)) as parts,
        _listening_socket("127.0.0.1", 0) as listener,
    ):
        server = _server(config, parts.served, lifecycle, tls)
        with _running(server, listener):
            wait_until(lambda: server.started)
            with httpx2.Client(
                base_url=_url(listener, tls), verify=verify, timeout=BOUND_S
            ) as client:  # type: ignore[arg-type]
                yield client


@pytest.fixture(scope="module")
def local(served: Serve) -> httpx2.Client:
    """A server without keys, for this machine."""
    return served()


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:80", "[::1]:8321", "LOCALHOST:1", "[::1]", "127.0.0.2:80"]
)
def test_without_keys_it_answers_under_its_own_names(local: httpx2.Client, host: str) -> None:
    assert local.get("/v1/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["rebound.example", "127.0.0.1.example", "localhost.", "localhost@x", "10.0.0.1:80", "::1", ""],
)
def test_without_keys_a_rebound_name_gets_no_answer(local: httpx2.Client, host: str) -> None:
    answer = local.get("/v1/models", headers={"Host": host})

    assert answer.status_code == 421
    assert answer.json()["error"]["code"] == "misdirected_request"


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://[evil"]
)
def test_without_keys_other_sites_pages_cannot_send_even_what_needs_no_preflight(
    local: httpx2.Client, origin: str
) -> None:
    for method, path in (("POST", "/admin/v1/drain"), ("GET", "/v1/models")):
        answer = local.request(method, path, headers={"Origin": origin})
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "origin_not_allowed"
        assert "access-control-allow-origin" not in answer.headers
    assert local.get("/ready").status_code == 200


def test_its_own_pages_may(local: httpx2.Client) -> None:
    own = str(local.base_url).rstrip("/")

    assert local.get("/v1/models", headers={"Origin": own}).status_code == 200


def test_an_origin_that_is_let_in_can_ask_and_read(served: Serve) -> None:
    client = served(cors_origins=(APP,))
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}

    asked = client.options("/v1/chat/completions", headers={"Origin": APP, **preflight})
    answer = client.post("/v1/chat/completions", json=chat_body(), headers={"Origin": APP})

    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == APP
    assert "x-a" in asked.headers["access-control-allow-headers"]
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == APP
    assert "access-control-allow-credentials" not in answer.headers
    other = client.options("/v1/models", headers={"Origin": "https://evil.example", **preflight})
    assert "access-control-allow-origin" not in other.headers
    assert client.get("/v1/models", headers={"Origin": "https://evil.example"}).status_code == 403


def test_opened_on_purpose_it_answers_under_every_name_and_still_not_to_pages(
    served: Serve,
) -> None:
    client = served(host="0.0.0.0", insecure_open=True)

    assert client.get("/v1/models", headers={"Host": "box.local"}).status_code == 200
    page = {"Host": "box.local", "Origin": "https://evil.example"}
    assert client.get("/v1/models", headers=page).status_code == 403


def test_with_keys_browsers_get_no_word_of_permission_by_default(house: House) -> None:
    headers = {"Origin": APP, "Host": "api.example.com"}
    preflight = {**headers, "Access-Control-Request-Method": "POST"}

    asked = house.nobody.options("/v1/chat/completions", headers=preflight)
    answer = ask(house.ann, headers=headers)

    assert asked.status_code == 401
    assert answer.status_code == 200
    for each in (asked, answer):
        assert not [name for name in each.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "example.com",
        "https://",
        "https://*.example.com",
        "https://a/",
        "ftp://a",
        "https://u@a",
        "https://[a",
        "https://a:99999",
    ],
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="an origin is a scheme, a host"):
        Access(cors_origins=(origin,))


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with _listening_socket("127.0.0.1", 0) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                assert client.fileno() > 0


# -- TLS ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed one for 127.0.0.1."""
    return write_certificate(tmp_path_factory.mktemp("tls"))


def test_it_speaks_tls_and_nothing_older_than_1_2(
    served: Serve, certificate: tuple[Path, Path]
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    client = served(tls_cert=certificate[0], tls_key=certificate[1], verify=trusting)

    assert client.base_url.scheme == "https"
    assert client.post("/v1/chat/completions", json=chat_body()).status_code == 200
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):  # an SSLError, or the connection is gone before it is read
        asyncio.run(_shake_hands(client, old))
    new = ssl.create_default_context(cafile=str(certificate[0]))
    new.maximum_version = ssl.TLSVersion.TLSv1_2
    asyncio.run(_shake_hands(client, new))
    with Access(tls_cert=certificate[0], tls_key=certificate[1]).tls() as context:
        assert context is not None
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


async def _shake_hands(client: httpx2.Client, context: ssl.SSLContext) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port, ssl=context)
    writer.close()
    await writer.wait_closed()


def test_files_that_do_not_fit_are_named(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    (tmp_path / "nonsense.pem").write_text("nonsense")
    for pair in ((key, cert), (cert, tmp_path / "missing.pem"), (tmp_path / "nonsense.pem", key)):
        access = Access(tls_cert=pair[0], tls_key=pair[1])
        with pytest.raises(OSError, match=f"with {pair[0]} and {pair[1]}"), access.tls():
            pass


def test_a_certificate_needs_its_key(certificate: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="go together"):
        Access(tls_cert=certificate[0])
