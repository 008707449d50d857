"""Images and documents of tools: believed by their bytes, since they are sent again for ever."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import File, Image
from agentkit.toolset import FunctionTool, ToolContext, ToolOutput, tool
from agentkit.toolset.attachments import BadAttachment, checked, image_of, pdf_of
from agentkit.toolset.results import to_output
from tests.agentkit.pictures import gif, jpeg, pdf, png, text, webp

WHOLE = {
    "png": (png(3, 5), "image/png"),
    "jpeg": (jpeg(3, 5), "image/jpeg"),
    "gif": (gif(3, 5), "image/gif"),
    "webp": (webp(3, 5), "image/webp"),
    "webp, extended": (webp(3, 5, b"VP8X"), "image/webp"),
    "webp, lossless": (webp(3, 5, b"VP8L"), "image/webp"),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_an_image_is_known_by_its_bytes_with_its_size(kind: str) -> None:
    raw, media_type = WHOLE[kind]
    assert image_of(text(raw)) == Image(media_type=media_type, data=text(raw), width=3, height=5)


@pytest.mark.parametrize("kind", WHOLE)
def test_an_image_that_was_cut_off_is_none(kind: str) -> None:
    raw, _ = WHOLE[kind]
    for end in range(len(raw)):
        with pytest.raises(BadAttachment):
            image_of(text(raw[:end]))


HEADER = struct.pack(">IIBBBBB", 10, 10, 8, 2, 0, 0, 0)


def png_of(header: bytes, data: bytes) -> bytes:
    chunks = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    made = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (png_of(HEADER, b"this is no zlib stream"), "pixels are damaged"),
        (png_of(HEADER, b""), "pixels are damaged"),
        (png_of(HEADER, zlib.compress(b"\0" * 309)), "pixels are damaged"),
        (png_of(HEADER, zlib.compress(b"\0" * 310)[:-8]), "pixels are damaged"),
        (b"\xff\xd8\xff\xc0\x00\x0b\x08\0\x0a\0\x0a\x01\x01\x11\0\xff\xd9", "JPEG without"),
        (jpeg().replace(b"\x11\xff\xd9", b"\xff\xd9"), "JPEG without"),
        (b"GIF89a" + struct.pack("<HH", 10, 10) + b"\0\0\0;", "GIF without"),
        (b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0" + b"\0" * 10, "WebP without"),
    ],
)
def test_an_image_that_nobody_can_decode_is_none(raw: bytes, words: str) -> None:
    with pytest.raises(BadAttachment, match=words):
        image_of(text(raw))


@pytest.mark.parametrize(("interlaced", "n_bytes"), [(0, 310), (1, 320)])
def test_a_png_has_the_pixels_that_it_promises(interlaced: int, n_bytes: int) -> None:
    header = struct.pack(">IIBBBBB", 10, 10, 8, 2, 0, 0, interlaced)
    # Of 10 x 10 the passes have 2x2, 1x2, 3x1, 2x3, 5x2, 5x5 and 10x5 pixels, in 20 rows.
    image_of(text(png_of(header, zlib.compress(b"\0" * n_bytes))))
    with pytest.raises(BadAttachment):
        image_of(text(png_of(header, zlib.compress(b"\0" * (n_bytes - 1)))))


def test_a_gif_in_millions_of_parts_is_none() -> None:
    raw = gif()[:13] + b"\x21\xfe" + b"\x01a" * 2_000_000 + b"\0" + gif()[13:]
    with pytest.raises(BadAttachment, match="too many parts"):
        image_of(text(raw))
    whole = gif()[:13] + b"\x21\xfe" + (b"\xff" + b"a" * 255) * 8_000 + b"\0" + gif()[13:]
    assert image_of(text(whole)).media_type == "image/gif"


def test_base64_in_lines_is_attached_without_them() -> None:
    wrapped = base64.encodebytes(png(50, 50)).decode()
    assert "\n" in wrapped
    assert image_of(wrapped).data == text(png(50, 50))


def test_a_png_with_a_damaged_part_is_none() -> None:
    raw = bytearray(png())
    raw[45] ^= 1
    with pytest.raises(BadAttachment, match="damaged"):
        image_of(text(bytes(raw)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "no bytes"),
        (b"x", "no bytes"),
        ("", "empty"),
        ("a", "no base64"),
        ("!!!!", "no base64"),
        ("\ud800AAA", "no base64"),
        (text(b"<svg/>"), "no PNG, JPEG, GIF or WebP"),
        (text(b"BM" + b"\0" * 50), "no PNG"),
        (text(png(8001, 1)), "8001 x 1 pixels"),
        (text(gif(0, 1)), "0 x 1 pixels"),
        ("A" * 8_000_000, "6,000,000 bytes, of 5,000,000"),
    ],
)
def test_what_is_no_image_says_why(data: object, words: str) -> None:
    with pytest.raises(BadAttachment, match=words):
        image_of(data)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"hello", "no whole PDF"),
        (pdf()[:-8], "no whole PDF"),
        (b"%PDF-1.7\nnothing\n%%EOF", "without contents"),
        (pdf().replace(b"startxref", b"start"), "without contents"),
        (pdf() + b"/Encrypt startxref 0 %%EOF", "encrypted"),
        (pdf(101), "101 pages"),
    ],
)
def test_a_pdf_that_providers_refuse_says_why(raw: bytes, words: str) -> None:
    with pytest.raises(BadAttachment, match=words):
        pdf_of(text(raw), "a.pdf")


def test_a_whole_pdf_is_attached_with_its_name() -> None:
    assert pdf_of(text(pdf(100)), "a.pdf") == File.of_bytes(
        pdf(100), "application/pdf", name="a.pdf"
    )


@given(st.binary(max_size=200), st.sampled_from([raw for raw, _ in WHOLE.values()]))
def test_no_bytes_at_all_crash_the_check(tail: bytes, raw: bytes) -> None:
    for data in (tail, raw[:8] + tail, raw[:20] + tail, tail + raw):
        try:
            found = image_of(text(data))
        except BadAttachment:
            continue
        assert base64.b64decode(found.data or "") == data


def test_a_functions_own_block_is_checked_too() -> None:
    assert checked(Image.of_bytes(png(3, 5), "image/png")) == image_of(text(png(3, 5)))
    for good in (
        Image(media_type="image/png", url="https://x.test/a.png"),
        File.of_bytes("Wörter".encode(), "text/plain", name="a.txt"),
        File.of_bytes(pdf(), "application/pdf", name="a.pdf"),
    ):
        assert checked(good) == good
    for bad, words in (
        (Image.of_bytes(png(), "image/jpeg"), "it is image/png"),
        (Image.of_bytes(b"x", "image/png"), "no PNG"),
        (File.of_bytes(b"x", "application/pdf", name="a.pdf"), "no whole PDF"),
        (File.of_bytes(b"caf\xe9", "text/plain", name="a.txt"), "no UTF-8"),
    ):
        with pytest.raises(BadAttachment, match=words):
            checked(bad)


def test_a_function_may_return_images_and_files_alone_or_among_others() -> None:
    image, file = (
        Image.of_bytes(png(), "image/png"),
        File.of_bytes(pdf(), "application/pdf", name="a"),
    )
    assert to_output(image) == ToolOutput(
        content="[image: image/png, attached]", attachments=(image,)
    )
    assert to_output(["Two:", image, {"n": 1}, file]) == ToolOutput(
        content='Two:\n[image: image/png, attached]\n{"n":1}\n[a: application/pdf, attached]',
        attachments=(image, file),
    )


def test_bytes_are_refused_with_a_word_on_what_to_return() -> None:
    with pytest.raises(TypeError, match=r"Image\.of_bytes"):
        to_output(b"x")
    with pytest.raises(TypeError, match="Image and File"):
        ToolOutput(content="x", attachments=({"type": "image"},))  # type: ignore[arg-type]


async def test_a_tool_that_returns_an_image_answers_with_it(context: ToolContext[None]) -> None:
    @tool
    def draw() -> Image:
        """Draw."""
        return Image.of_bytes(png(), "image/png")

    assert isinstance(draw, FunctionTool)
    output = await draw.call({}, context)
    assert output.attachments == (Image.of_bytes(png(), "image/png"),)
