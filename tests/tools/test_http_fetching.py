"""Fetching pages: what is refused before a connection is made, and what is bounded after it."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_tools import _web_rules
from agentkit_tools._addresses import is_of_this_machine, why_not_public
from agentkit_tools._errors import Refused
from agentkit_tools._fetching import Body
from agentkit_tools._web_rules import Allowed, Rules
from tests.tools.web import PUBLIC, page_of, redirect_to, web

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
        "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192",
        "192.168.1.1", "198.18.0.1", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1",
        "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "fc00::1", "fd00:ec2::254",
        "fe80::1", "fe80::1%eth0", "2606:4700::1%lo", "fec0::1", "ff02::1", "3fff::1",
        "2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:10.0.0.1", "4000::1", "100::1",
        "localhost", "", "1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address):
    assert why_not_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8", PUBLIC, "172.15.0.1", "172.32.0.1", "100.63.0.1", "223.255.255.255",
        "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
    ],
)  # fmt: skip
def test_addresses_that_are_public(address):
    assert why_not_public(address) is None


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_called_public(address):
    if not address.is_global or address.is_multicast:
        embedded = address.version == 6 and (address.ipv4_mapped or address.is_reserved)
        assert why_not_public(str(address)) or embedded


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.org/", "only http:// and https://"),
        ("file:///etc/passwd", "only http:// and https://"),
        ("gopher://example.org", "only http:// and https://"),
        ("javascript:alert(1)", "only http:// and https://"),
        ("example.org", "only http:// and https://"),
        ("http://", "neither the name of a host"),
        ("http://user:password@example.org/", "leave the user name"),
        ("http://example.org@127.0.0.1/", "leave the user name"),
        ("http://example.org:22/", "port 22 is not allowed"),
        ("http://example.org:0/", "port 0 is not allowed"),
        ("http://example.org:99999/", "port 99999 is not allowed"),
        ("http://example.org:80:80/", "no valid address"),
        ("http://2130706433/", "neither the name of a host"),
        ("http://0x7f000001/", "neither the name of a host"),
        ("http://0x7f.1/", "neither the name of a host"),
        ("http://0177.0.0.1/", "no valid address"),
        ("http://127.1/", "neither the name of a host"),
        ("http://127.0.0.1.:80/", "not on the public internet"),
        ("http://[::1]/", "not on the public internet"),
        ("http://[::ffff:127.0.0.1]/", "not on the public internet"),
        ("http://[fe80::1%25eth0]/", "not on the public internet"),
        ("http://169.254.169.254/latest/meta-data", "not on the public internet"),
        ("http://１２７.0.0.1/", "no valid address"),
        ("http://example.org\r\nX-Injected: 1/", "no valid address"),
        ("http://exam ple.org/", "neither the name of a host"),
        ("http://example.org\\@127.0.0.1/", "leave the user name"),
        ("http://-example.org/", "neither the name of a host"),
        ("http://" + "a" * 300 + ".org/", "neither the name of a host"),
        ("http://example.org/" + "a" * 4000, "at most 4000 characters"),
    ],
)
async def test_addresses_that_are_refused_without_a_connection(url, words):
    async with web() as here:
        with pytest.raises(Refused, match=words):
            await here.fetcher().fetch(url)
        assert here.wire.wanted == []


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("localhost", ["127.0.0.1", "::1"]),
        ("localhost.", ["127.0.0.1"]),
        ("metadata.test", ["169.254.169.254"]),
        ("mixed.test", [PUBLIC, "10.0.0.1"]),
        ("mapped.test", ["::ffff:192.168.0.1"]),
        ("translated.test", ["64:ff9b::a00:1"]),
        ("nothing.test", []),
    ],
)
async def test_names_that_lead_inside_are_refused_without_a_connection(name, addresses):
    async with web() as here:
        here.names[name.rstrip(".")] = [addresses]
        with pytest.raises(Refused, match=r"not on the public internet|has no address"):
            await here.fetcher().fetch(f"http://{name}/")
        assert here.wire.wanted == []


def test_an_address_of_an_interface_of_this_machine_is_known():
    assert is_of_this_machine("127.0.0.1")
    assert is_of_this_machine("127.0.0.9")
    assert not is_of_this_machine(PUBLIC)
    assert not is_of_this_machine("2606:4700::1111")


async def test_a_public_address_of_this_machine_is_not_reached(monkeypatch):
    monkeypatch.setattr(_web_rules, "is_of_this_machine", [PUBLIC].__contains__)
    async with web() as here:
        with pytest.raises(Refused, match=r"'site\.test' is this machine itself"):
            await here.fetcher().fetch("http://site.test/")
        assert here.wire.wanted == []


async def test_a_page_is_fetched_from_the_address_that_was_checked():
    async with web() as here:
        here.pages["/page?q=1"] = page_of("hello")
        here.names["site.test"] = [[PUBLIC], ["127.0.0.1"]]
        page = await here.fetcher().fetch("http://SITE.test./page?q=1#part")
        assert (page.status, page.body, page.url) == (200, b"hello", "http://site.test/page?q=1")
        assert here.wire.wanted == [(PUBLIC, 80)]
        assert here.n_looked_up == 1
        request = here.requests[0].decode().lower()
        assert request.startswith("get /page?q=1 http/1.1\r\n")
        assert "\r\nhost: site.test\r\n" in request
        assert "cookie" not in request
        assert "authorization" not in request


async def test_another_address_is_tried_when_one_does_not_answer():
    async with web() as here:
        here.pages["/"] = page_of("second")
        here.wire.dead = {PUBLIC}
        here.names["site.test"] = [[PUBLIC, "93.184.216.35"]]
        assert (await here.fetcher().fetch("http://site.test/")).body == b"second"
        here.names["site.test"] = [[PUBLIC]]
        with pytest.raises(Refused, match=r"cannot reach site\.test:80: nobody there"):
            await here.fetcher().fetch("http://site.test/")


async def test_a_name_that_is_bound_anew_gains_nothing():
    async with web() as here:
        here.pages["/again"] = redirect_to("http://rebind.test/inside")
        here.pages["/inside"] = page_of("secret")
        here.names["rebind.test"] = [[PUBLIC], ["127.0.0.1"]]
        with pytest.raises(Refused, match="not on the public internet"):
            await here.fetcher().fetch("http://rebind.test/again")
        assert here.wire.wanted == [(PUBLIC, 80)]
        assert len(here.requests) == 1


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/", "//127.0.0.1/x", "http://inner.test/", "file:///etc/passwd",
        "http://site.test:6379/", "http://user@site.test/", "http://[::1]/", "http://[bad/",
        "https://169.254.169.254/",
    ],
)  # fmt: skip
async def test_a_redirect_is_checked_like_the_first_address(location):
    async with web() as here:
        here.names["inner.test"] = [["10.0.0.1"]]
        here.pages["/"] = redirect_to(location)
        with pytest.raises(Refused):
            await here.fetcher().fetch("http://site.test/")
        assert len(here.requests) == 1


async def test_redirects_are_followed_and_end():
    async with web() as here:
        here.pages["/1"] = redirect_to("2", "301 Moved")
        here.pages["/2"] = redirect_to("http://other.test/3", "307 Temporary Redirect")
        here.pages["/3"] = page_of("there")
        here.pages["/loop"] = redirect_to("/loop")
        page = await here.fetcher().fetch("http://site.test/1")
        assert (page.url, page.body) == ("http://other.test/3", b"there")
        with pytest.raises(Refused, match="redirects more than 5 times"):
            await here.fetcher().fetch("http://site.test/loop")


async def test_with_an_allow_list_nothing_else_is_reached():
    async with web() as here:
        here.pages["/"] = page_of("yes")
        fetcher = here.fetcher("site.test", "*.sub.test", "api.test:8080", "any.test:*")
        for url in (
            "http://site.test/",
            "http://a.b.sub.test/",
            "http://api.test:8080/",
            "http://any.test:1234/",
        ):
            assert (await fetcher.fetch(url)).body == b"yes"
        for url in (
            "http://other.test/",
            "http://sub.test/",
            "http://evilsub.test/",
            "http://site.test.evil.test/",
            "http://site.test:8080/",
            "http://api.test/",
        ):
            with pytest.raises(Refused, match=r"is not allowed; allowed are: site\.test"):
                await fetcher.fetch(url)
        assert [port for _, port in here.wire.wanted] == [80, 80, 8080, 1234]


async def test_private_addresses_are_reached_when_that_is_wanted():
    async with web() as here:
        here.pages["/"] = page_of("local")
        here.names["localhost"] = [["127.0.0.1"]]
        fetcher = here.fetcher(f"localhost:{here.port}", "[::1]:8080", allow_private=True)
        assert (await fetcher.fetch(f"http://localhost:{here.port}/")).body == b"local"
        assert (await fetcher.fetch("http://[::1]:8080/")).body == b"local"


@pytest.mark.parametrize(
    "text", ["", "http://x", "a b", "x:0", "x:99999", "*.*.x", "user@x", "[x]"]
)
def test_an_entry_of_the_allow_list_that_is_no_host_is_refused(text):
    with pytest.raises(ValueError, match=r"is no host|has no port"):
        Allowed.parse(text)


@given(st.text())
def test_any_text_is_an_address_or_refused(text):
    for url in (text, f"http://{text}", f"http://example.org/{text}"):
        try:
            target = Rules().target(url)
        except Refused:
            continue
        assert target.port in (80, 443)
        assert target.url.raw_host.decode().strip("[]") == target.host


async def test_a_page_longer_than_the_bound_is_cut_while_it_comes():
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with web() as here:
        here.pages["/"] = endless
        page = await here.fetcher(max_body_bytes=100_000).fetch("http://site.test/")
        assert (len(page.body), page.is_cut) == (100_000, True)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\nab"])
async def test_a_server_that_stops_in_the_middle_is_given_up(head):
    async def silent(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        await over.wait()

    over = asyncio.Event()
    async with web() as here:
        here.pages["/"] = silent
        with pytest.raises(Refused, match=r"no complete answer within 0\.3 seconds"):
            await here.fetcher(timeout_s=0.3).fetch("http://site.test/")
        over.set()


async def test_a_look_up_that_hangs_is_given_up_and_one_that_fails_is_told():
    async def hangs(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def fails(host: str, port: int) -> list[str]:
        raise OSError

    async with web() as here:
        with pytest.raises(Refused, match="no complete answer"):
            await here.fetcher(timeout_s=0.2, resolve=hangs).fetch("http://site.test/")
        with pytest.raises(Refused, match=r"the name 'site\.test' is not known"):
            await here.fetcher(resolve=fails).fetch("http://site.test/")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab",
    ],
)
async def test_an_answer_that_is_none_is_refused(answer):
    async with web() as here:
        here.pages["/"] = answer
        with pytest.raises(Refused):
            await here.fetcher().fetch("http://site.test/")


async def test_a_compressed_bomb_is_cut_at_the_bound():
    bomb = gzip.compress(bytes(50_000_000), 9)
    async with web() as here:
        here.pages["/"] = page_of(bomb, headers="Content-Encoding: gzip\r\n")
        here.pages["/small"] = page_of(
            gzip.compress(b"small"), headers="Content-Encoding: gzip\r\n"
        )
        tracemalloc.start()
        try:
            page = await here.fetcher(max_body_bytes=1_000_000).fetch("http://site.test/")
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()
        assert (len(page.body), page.is_cut) == (1_000_000, True)
        assert (await here.fetcher().fetch("http://site.test/small")).body == b"small"


def test_nothing_is_taken_of_what_follows_the_end_of_a_compressed_body():
    body = Body("gzip", 1000)
    assert not body.take(gzip.compress(b"all") + b"x" * 500)
    assert (bytes(body.data), body.is_cut) == (b"all", False)


async def test_a_redirect_to_an_endless_address_is_refused():
    async with web() as here:
        here.pages["/"] = redirect_to("/" + "b" * 5000)
        with pytest.raises(Refused, match=r"the address has \d+ characters") as caught:
            await here.fetcher().fetch("http://site.test/")
        assert len(str(caught.value)) < 300
        assert len(here.requests) == 1


@given(data=st.binary(max_size=400), cuts=st.lists(st.integers(0, 400), max_size=5))
@pytest.mark.parametrize(
    ("encoding", "pack"), [("", bytes), ("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_a_body_is_the_same_however_it_is_cut_into_parts(encoding, pack, data, cuts):
    packed = pack(data)
    edges = sorted({0, len(packed), *(cut for cut in cuts if cut < len(packed))})
    body = Body(encoding, 200)
    for start, end in itertools.pairwise(edges):
        if not body.take(packed[start:end]):
            break
    assert bytes(body.data) == data[:200]
    assert body.is_cut == (len(data) > 200 or (encoding != "" and len(packed) > 200))
