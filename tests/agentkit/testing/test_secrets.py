"""What never gets into a recording: secrets in all their spellings, and what is secret by name."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.testing.wire.cassette import Player, Recorder
from agentkit.testing.wire.compressed import UnreadableBody, readable
from agentkit.testing.wire.intercept import intercepting
from agentkit.testing.wire.secrets import REMOVED, Scrubber

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B/AQEF+A==\n-----END PRIVATE KEY-----\n"
TOKEN = "abcdEFGH12345678"
Answer = Callable[[httpx2.Request], httpx2.Response]


@given(
    secret=st.text(
        st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=16, max_size=40
    ).filter(lambda text: len(text.strip()) >= 16),
    before=st.binary(max_size=4),
)
def test_no_spelling_of_a_secret_is_left(secret: str, before: bytes) -> None:
    secret = secret.strip()
    scrubber = Scrubber(environment={"APP_SECRET": secret})
    in_json = json.dumps(secret)[1:-1]
    for spelled in (
        secret,
        in_json,
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(in_json)[1:-1],
        in_json.replace("/", "\\/"),
        quote(secret, safe=""),
        quote(secret, safe="").lower() if secret == secret.lower() else secret,
        secret.encode().hex(),
        base64.b64encode(secret.encode()).decode(),
    ):
        assert scrubber.text(f"({spelled})") == f"({REMOVED})", spelled
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        longer = encode(before + secret.encode() + b" and more").decode()
        assert REMOVED in scrubber.text(longer)


def test_a_private_key_is_taken_out_of_json_and_the_json_stays_valid() -> None:
    scrubber = Scrubber(environment={"APP_PRIVATE_KEY": PEM})
    body = json.dumps({"prompt": f"the key is {PEM}, really", "tool": json.dumps({"k": PEM})})
    found = json.loads(scrubber.data(body.encode()))
    assert found["prompt"].startswith(f"the key is {REMOVED}")
    assert "MIIE" not in str(found)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (b'{"api_key": "abcdEFGH12345678", "n": 1}', b'{"api_key": "REMOVED", "n": 1}'),
        (b'{"accessToken":"abcd\\"EF","n":1}', b'{"accessToken":"REMOVED","n":1}'),
        (
            b'{"arguments": "{\\"password\\": \\"hun\\\\\\"ter\\"}"}',
            b'{"arguments": "{\\"password\\": \\"REMOVED\\"}"}',
        ),
        (b"grant=x&client_secret=abcdEFGH12345678&a=b", b"grant=x&client_secret=REMOVED&a=b"),
    ],
)
def test_what_is_secret_by_the_name_of_its_field_is_removed(body: bytes, left: bytes) -> None:
    assert Scrubber(environment={}).data(body) == left


@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt_cache_key": "abcdEFGH12345678", "max_tokens": 7}',
        b'{"logprobs": [{"token": "Hello"}], "signature": "abcdEFGH12345678"}',
        b'{"properties": {"password": {"type": "string"}}, "required": ["password"]}',
    ],
)
def test_what_only_sounds_like_a_secret_stays(body: bytes) -> None:
    scrubber = Scrubber(environment={})
    scrubber.learn_body(body)
    assert scrubber.data(body) == body


def test_a_word_in_a_secret_field_does_not_empty_the_rest_of_the_recording() -> None:
    scrubber = Scrubber(environment={})
    scrubber.learn_body(b'{"password": "password", "api_key": "abcdEFGH12345678"}')
    assert scrubber.text(f'"password": {TOKEN}') == f'"password": {REMOVED}'


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ([("Authorization", "Basic " + base64.b64encode(b"u:abcdEFGH12345678").decode())], "/"),
        ([("Authorization", "Basic " + base64.b64encode(b"abcdEFGH12345678:").decode())], "/"),
        ([], "https://abcdEFGH12345678:@provider.invalid/"),
        ([], "https://user:abcdEFGH12345678@provider.invalid/"),
        ([], "https://provider.invalid/?code=abcdEFGH12345678"),
    ],
)
def test_what_a_request_identifies_itself_with_is_removed_elsewhere(
    headers: list[tuple[str, str]], url: str
) -> None:
    scrubber = Scrubber(environment={})
    scrubber.learn(headers, url)
    assert scrubber.text(f"I am {TOKEN}") == f"I am {REMOVED}"
    assert TOKEN not in scrubber.url(url)


@pytest.fixture
def recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], object], Answer], str]:
    """Record what a function asks, replay it, see that it gets the same, and return the file."""

    def run(ask: Callable[[], object], answer: Answer) -> str:
        monkeypatch.setattr(
            httpx2.HTTPTransport, "handle_request", lambda _, request: answer(request)
        )
        path = tmp_path / "c.json"
        recorder = Recorder(path, Scrubber(environment={}))
        with intercepting(recorder):
            first = ask()
        recorder.save()
        player = Player(path, Scrubber(environment={}))
        with intercepting(player):
            assert ask() == first
        assert player.left == ()
        return path.read_text("utf-8")

    return run


def compressed(data: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data)
    raw = zlib.compressobj(wbits=-15)
    return zlib.compress(data) if encoding == "deflate" else raw.compress(data) + raw.flush()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
def test_compressed_bodies_are_searched_and_replayed_readable(
    encoding: str, recorded: Callable[[Callable[[], object], Answer], str]
) -> None:
    said = json.dumps({"told": f"I am {TOKEN}"}).encode()
    name = encoding.split()[-1]
    body = compressed(said, encoding)

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.read() == body
        return httpx2.Response(200, headers={"content-encoding": name}, content=iter([body]))

    def ask() -> object:
        with httpx2.Client(headers={"x-api-key": TOKEN, "content-encoding": name}) as http:
            found = http.post("https://provider.invalid/", content=body).json()["told"]
        return found.replace(TOKEN, REMOVED)

    text = recorded(ask, answer)
    assert text.count(f"I am {REMOVED}") == 2
    assert "base64" not in text


def test_all_members_of_a_gzip_file_are_searched() -> None:
    body = gzip.compress(b"one, ") + gzip.compress(b"two")
    assert readable(body, [("Content-Encoding", "gzip")], "it") == b"one, two"
    with pytest.raises(UnreadableBody, match="it is not compressed as it says"):
        readable(b"plain", [("Content-Encoding", "gzip")], "it")


def test_a_body_that_cannot_be_searched_is_not_recorded(
    recorded: Callable[[Callable[[], object], Answer], str], tmp_path: Path
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-encoding": "zip"}, content=iter([b"PK.."]))

    def ask() -> object:
        with httpx2.Client() as http:
            return http.get("https://provider.invalid/").status_code

    with pytest.raises(UnreadableBody, match=r"answer to https://provider.invalid/ .*'zip'"):
        recorded(ask, answer)
    assert not (tmp_path / "c.json").exists()


def test_redirects_are_followed_again(
    recorded: Callable[[Callable[[], object], Answer], str],
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/to":
            return httpx2.Response(200, text="final")
        return httpx2.Response(307, headers={"location": f"/to?sig={TOKEN}&a=b"})

    def ask() -> object:
        with httpx2.Client(follow_redirects=True) as http:
            return http.get("https://provider.invalid/").text

    text = recorded(ask, answer)
    assert TOKEN not in text
    assert "/to?sig=REMOVED&a=b" in text


def test_a_token_that_an_answer_hands_out_is_removed_from_all_requests(
    recorded: Callable[[Callable[[], object], Answer], str],
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"access_token": TOKEN})

    def ask() -> object:
        with httpx2.Client() as http:
            told = http.post("https://provider.invalid/token").json()["access_token"]
            url = "https://provider.invalid/"
            http.post(url, headers={"authorization": f"Bearer {told}"}, content=f"I am {told}")
        return None

    assert TOKEN not in recorded(ask, answer)
