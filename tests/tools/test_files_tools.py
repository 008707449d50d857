"""What the tools of the files server answer."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from agentkit_tools import _finding, _listing, _root, _text
from agentkit_tools._errors import Refused
from agentkit_tools._listing import fits
from agentkit_tools._names import shown_name
from agentkit_tools._root import Root
from agentkit_tools._text import count_lines, lines_of
from agentkit_tools.files import FileTools

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def random() -> Random:
    return Random(17)


@pytest.fixture
def tools(root: Root) -> FileTools:
    return FileTools(root)


def test_a_folder_is_listed_in_order_with_sizes_and_line_counts(tools):
    assert tools.list_files().splitlines() == [
        "a.txt  15 bytes, 3 lines",
        "binary.bin  9 bytes, binary",
        "dangling  (link, cannot be read)",
        "empty.txt  0 bytes, 0 lines",
        "file_link  (link, cannot be read)",
        "folder_link  (link, cannot be read)",
        "inner_link  (link, cannot be read)",
        "notes/",
        "pipe  (special, cannot be read)",
        "socket  (special, cannot be read)",
    ]
    assert tools.list_files("notes/b.md") == "notes/b.md  41 bytes, 4 lines"
    assert tools.list_files("./notes/deep/") == "notes/deep/c.md  10 bytes, 1 line"


def test_a_listing_looks_at_no_more_files_than_it_shows(tools, folder, monkeypatch):
    (folder / "many").mkdir()
    for number in range(2500):
        (folder / "many" / f"{number:04}").touch()
    looked_at = []
    look = _root.entry_at
    monkeypatch.setattr(_root, "entry_at", lambda *args: looked_at.append(args[2]) or look(*args))
    assert tools.list_files("many").endswith("[2000 more; use a pattern such as '*.md']")
    assert len([name for name in looked_at if name.isdigit()]) < 1100  # once for its lines
    looked_at.clear()
    with pytest.raises(Refused) as caught:
        tools.read_lines("many/x")
    assert tools.explain(caught.value).endswith(" and 2480 more")
    assert len(looked_at) < 50


def test_a_pattern_finds_files_in_all_folders_below(tools):
    assert tools.list_files(pattern="*.md").splitlines() == [
        "notes/b.md  41 bytes, 4 lines",
        "notes/deep/c.md  10 bytes, 1 line",
    ]
    assert tools.list_files("notes", "deep/*.md") == "notes/deep/c.md  10 bytes, 1 line"
    assert tools.list_files(pattern="**/c.*") == "notes/deep/c.md  10 bytes, 1 line"
    assert tools.list_files(pattern="*.rs") == "[no file below '.' fits '*.rs']"
    with pytest.raises(Refused, match="at most 200 characters"):
        tools.list_files(pattern="*" * 300)


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a.md", "*.md", True),
        ("x/a.md", "*.md", False),
        ("x/a.md", "*/*.md", True),
        ("a.md", "**/a.md", True),
        ("x/y/a.md", "**/a.md", True),
        ("x/y/a.md", "x/**", True),
        ("x/y/a.md", "x/**/a.md", True),
        ("x/a.md", "x/**/a.md", True),
        ("x/a.md", "y/**", False),
        ("a.MD", "*.md", False),
        ("ab.md", "a?.[lm]d", True),
    ],
)
def test_patterns_follow_the_usual_rules(path, pattern, expected):
    assert fits(path, pattern) is expected


def test_a_hostile_pattern_takes_no_time():
    started = time.process_time()
    assert not fits("/".join(["a" * 50] * 50), "/".join(["**", "*a" * 20 + "b"] * 3))
    assert time.process_time() - started < 1


def test_long_lists_are_cut_with_a_note(tools, folder, monkeypatch):
    monkeypatch.setattr(_listing, "_MAX_SHOWN", 2)
    assert tools.list_files().splitlines()[2] == "[8 more; use a pattern such as '*.md']"
    assert tools.list_files(pattern="*").splitlines()[2].startswith("[more than 2 files fit")


def test_an_empty_folder_and_odd_names_are_shown_safely(tools, folder):
    (folder / "hollow").mkdir()
    assert tools.list_files("hollow") == "['hollow' is empty]"
    (folder / "hollow" / "new\nline\x1b[31m.txt").write_text("x")
    Path(os.fsdecode(os.fsencode(folder / "hollow") + b"/caf\xe9.txt")).write_text("x")
    assert tools.list_files("hollow").splitlines() == [
        "hollow/caf\\udce9.txt  1 bytes, 1 line",
        "hollow/new\\nline\\x1b[31m.txt  1 bytes, 1 line",
    ]
    assert "\\nline" in tools.search_text("x", "hollow")
    assert shown_name("grüße 🎈") == "grüße 🎈"


def test_lines_are_read_with_their_numbers(tools):
    assert tools.read_lines("a.txt") == "a.txt: lines 1-3 of 3\n  1| one\n  2| two\n  3| three"
    assert tools.read_lines("a.txt", 2, 2) == "a.txt: lines 2-2 of 3\n  2| two"
    assert tools.read_lines("a.txt", 2, 99) == "a.txt: lines 2-3 of 3\n  2| two\n  3| three"
    assert tools.read_lines("./notes//b.md", 4) == "notes/b.md: lines 4-4 of 4\n  4| No end of line"
    assert tools.read_lines("empty.txt") == "empty.txt: empty, 0 lines"


def test_line_numbers_are_aligned(tools, folder):
    (folder / "long.txt").write_text("x\n" * 12)
    assert tools.read_lines("long.txt", 9, 10).splitlines()[1:] == ["   9| x", "  10| x"]


def test_ranges_that_make_no_sense_are_refused(tools):
    with pytest.raises(Refused, match=r"'a\.txt' has 3 lines; start must be at most 3"):
        tools.read_lines("a.txt", 4)
    with pytest.raises(Refused, match="end must be at least start, which is 2, and not 1"):
        tools.read_lines("a.txt", 2, 1)


def test_reads_are_cut_by_lines_by_characters_and_within_a_line(tools, folder, monkeypatch):
    (folder / "long.txt").write_text("x\n" * 1000)
    lines = tools.read_lines("long.txt", 11).splitlines()
    assert (lines[0], lines[-1]) == (
        "long.txt: lines 11-410 of 1000",
        "[cut here; go on with start=411]",
    )
    assert "cut here" not in tools.read_lines("long.txt", 11, 20)
    (folder / "wide.txt").write_text(("y" * 5000 + "\n") * 100)
    lines = tools.read_lines("wide.txt").splitlines()
    assert lines[1].endswith("yy ... [line of 5000 characters]")
    assert len("\n".join(lines)) <= _text.MAX_ANSWER_CHARS
    monkeypatch.setattr(_text, "MAX_ANSWER_CHARS", 10)
    assert tools.read_lines("wide.txt", 3).splitlines()[0] == "wide.txt: lines 3-3 of 100"


def test_no_answer_is_so_long_that_a_client_would_cut_it(tools, folder):
    (folder / "prose.txt").write_text(("words " * 30 + "\n") * 400)
    (folder / "many").mkdir()
    for number in range(300):
        (folder / "many" / f"{number:03}{'n' * 200}").touch()
    answers = [
        tools.read_lines("prose.txt"),
        tools.list_files("many"),
        tools.list_files(pattern="*n"),
        tools.search_text("words", max_results=500),
    ]
    assert all(37_000 < len(answer) <= 38_000 for answer in answers)
    assert answers[0].endswith("[cut here; go on with start=200]")
    assert " more; use a pattern" in answers[1]
    assert "more do not fit; narrow the query or the path" in answers[3]


def test_a_folder_with_100_000_files_is_answered_in_time_and_within_bounds():
    in_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder, Root(folder) as root:
        many = os.open(folder, os.O_RDONLY)
        for number in range(100_000):
            os.close(os.open(f"{number:06}", os.O_CREAT | os.O_WRONLY, dir_fd=many))
        os.close(many)
        tools = FileTools(root)
        started = time.process_time()
        lines = tools.list_files().splitlines()
        assert (len(lines), lines[-1]) == (501, "[99500 more; use a pattern such as '*.md']")
        with pytest.raises(Refused) as caught:
            tools.read_lines("0999999")
        assert tools.explain(caught.value).endswith("and 99980 more")
        assert time.process_time() - started < 10


def test_every_file_that_is_listed_can_be_read_under_the_name_that_is_shown(tools, folder):
    odd = folder / "odd"
    (odd / "C:").mkdir(parents=True)
    (odd / "tab\there").mkdir()
    for name in (
        b"~note.md",
        b"C:/in.txt",
        b"line\nend",
        b"caf\xe9.txt",
        b"tab\there/x\ty",
        b"b\\n",
    ):
        with open(os.fsencode(odd) + b"/" + name, "w") as file:
            file.write("inside\n")
    shown = [line.split("  ")[0] for line in tools.list_files("odd", "**/*").splitlines()]
    assert len(shown) == 6
    for path in shown:
        assert tools.read_lines(path).startswith(f"{path}: lines 1-1 of 1")
        assert f"{path}:1: inside" in tools.search_text("inside", path)
    assert tools.list_files("odd/tab\\there", "x*").startswith("odd/tab\\there/x\\ty  ")
    os.rename(odd / "~note.md", folder / "~note.md")
    assert "inside" in tools.read_lines("~note.md")


def test_binary_huge_and_undecodable_files(tools, folder, monkeypatch):
    with pytest.raises(Refused, match=r"'binary\.bin' is a binary file, or not UTF-8 text"):
        tools.read_lines("binary.bin")
    (folder / "utf16.txt").write_text("hello", encoding="utf-16")
    with pytest.raises(Refused, match="binary file, or not UTF-8"):
        tools.read_lines("utf16.txt")
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")
    assert tools.read_lines("latin.txt").endswith("1| caf\ufffd")
    (folder / "bom.txt").write_text("x\n", encoding="utf-8-sig")
    assert tools.read_lines("bom.txt").endswith("1| x")
    with (folder / "huge.txt").open("wb") as huge:
        huge.truncate(10**12)
    with pytest.raises(Refused, match=r"'huge\.txt' is larger than 10485760 bytes"):
        tools.read_lines("huge.txt")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("\r\na\x0bb\u2028c\r", ["", "a\x0bb\u2028c"]),
    ],
)
def test_lines_end_at_line_feeds_and_nowhere_else(text, lines):
    assert lines_of(text) == lines
    assert count_lines(text.encode()) == len(lines)


def test_tools_may_be_called_from_many_threads_at_once(tools):
    """Regression: folder descriptors that shared a position gave each listing a part of it."""
    expected = (tools.list_files(), tools.search_text("tea"))
    with ThreadPoolExecutor(8) as pool:
        lists = list(pool.map(lambda _: tools.list_files(), range(100)))
        searches = list(pool.map(lambda _: tools.search_text("tea"), range(100)))
    assert ({*lists}, {*searches}) == ({expected[0]}, {expected[1]})


def test_text_is_found_in_a_fixed_order(tools):
    assert tools.search_text("tea").splitlines() == [
        "notes/b.md:3: A line about tea.",
        "notes/deep/c.md:1: Deep tea.",
        "[2 lines found, 5 files searched; not searched: 1 binary, 4 link, 2 special]",
    ]
    assert tools.search_text("KÖLN", "notes", ignore_case=True).splitlines() == [
        "notes/grüße 🎈.txt:1: Grüße aus Köln",
        "[1 line found, 3 files searched]",
    ]
    assert tools.search_text("t.a", "notes/b.md") == "[0 lines found, 1 files searched]"
    assert tools.search_text("two", "a.txt").splitlines()[0] == "a.txt:2: two"


def test_regular_expressions_are_found_too(tools):
    assert tools.search_text(r"^t\w+$", "a.txt", regex=True).splitlines()[:2] == [
        "a.txt:2: two",
        "a.txt:3: three",
    ]
    assert tools.search_text("TEA", regex=True, ignore_case=True).count("tea") == 2
    with pytest.raises(Refused, match="is no valid regular expression: missing \\)"):
        tools.search_text("(", regex=True)


def test_an_invalid_regular_expression_is_told_where_there_is_nothing_to_search(tools, folder):
    (folder / "hollow").mkdir()
    with pytest.raises(Refused, match="is no valid regular expression"):
        tools.search_text("(", "hollow", regex=True)


def test_plain_text_is_found_as_if_each_line_had_been_looked_at(tools, folder, random):
    """Also where folding makes lines longer, and lines end in all ways."""
    for number in range(150):
        text = "".join(random.choices("aAßİ\r\n\n", k=random.randint(0, 40)))
        (folder / "t.txt").write_text(text, encoding="utf-8", newline="")
        wanted = "".join(random.choices("aAßsİ\r", k=random.randint(1, 2)))
        folds = number % 2 == 0
        fold = str.casefold if folds else str
        expected = [
            f"t.txt:{at}: {line}"
            for at, line in enumerate(lines_of(text), start=1)
            if fold(wanted) in fold(line)
        ]
        answer = tools.search_text(wanted, "t.txt", ignore_case=folds)
        assert answer.split("\n")[:-1] == expected


@pytest.mark.parametrize("regex", [False, True])
def test_a_long_line_shows_the_part_around_its_match(tools, folder, regex):
    (folder / "long.txt").write_text("ß" * 3000 + "X" + "ß" * 3000, encoding="utf-8")
    answer = tools.search_text("x", "long.txt", regex=regex, ignore_case=True)
    assert answer.startswith("long.txt:1: ... ßßß")
    if regex:  # plain text is found in what folding made of the line, which is longer
        assert "X" in answer


def test_millions_of_short_lines_are_searched_without_holding_each(tools, folder):
    (folder / "short.txt").write_bytes(b"ab\n" * 400_000)
    tracemalloc.start()
    try:
        answer = tools.search_text("no such text", "short.txt")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer == "[0 lines found, 1 files searched]"
    assert peak_bytes < 15_000_000  # each line as an object takes 50 bytes


def test_a_catastrophic_regular_expression_is_stopped(tools, folder, monkeypatch):
    monkeypatch.setattr(_finding, "_MAX_SECONDS", 0.7)
    (folder / "evil.txt").write_text("a" * 60 + "!\n")
    started = time.monotonic()
    with pytest.raises(Refused, match="takes too long; avoid nested repetition"):
        tools.search_text("^(a+)+$", "evil.txt", regex=True)
    assert time.monotonic() - started < 10


@pytest.mark.skipif(sys.platform != "linux", reason="address space is bounded on Linux only")
def test_a_regular_expression_that_fills_the_memory_is_stopped(tools, folder, monkeypatch):
    monkeypatch.setattr(_finding, "_MAX_REGEX_BYTES", 100 * 2**20)
    (folder / "evil.txt").write_text("ab" * 1_500_000)
    with pytest.raises(Refused, match=r"takes too much memory; avoid repeated alternatives"):
        tools.search_text("(?:(a)|(b))*c", "evil.txt", regex=True)
    assert "a.txt:1: one" in tools.search_text("^one", "a.txt", regex=True)


def test_regular_expressions_wait_for_a_place_and_give_it_back(tools, monkeypatch):
    monkeypatch.setattr(_finding, "_places", threading.BoundedSemaphore(1))
    monkeypatch.setattr(_finding, "_MAX_SECONDS", 0.2)
    assert _finding._places.acquire()
    with pytest.raises(Refused, match="too many searches run at the same time"):
        tools.search_text("^one", "a.txt", regex=True)
    _finding._places.release()
    monkeypatch.setattr(_finding, "_MAX_SECONDS", 20.0)
    for _ in range(2):
        assert "a.txt:1: one" in tools.search_text("^one", "a.txt", regex=True)


def test_a_hostile_plain_query_takes_linear_time(tools, folder):
    (folder / "evil.txt").write_text("A" * 2_000_000 + "\n")
    started = time.process_time()
    tools.search_text("a" * 999 + "b", "evil.txt", ignore_case=True)
    assert time.process_time() - started < 2


def test_results_are_bounded_and_long_lines_show_the_place_of_the_match(tools, folder, monkeypatch):
    (folder / "many.txt").write_text("hit\n" * 100)
    lines = tools.search_text("hit", "many.txt", max_results=3).splitlines()
    assert lines == [
        *(f"many.txt:{n}: hit" for n in (1, 2, 3)),
        "[more than 3 lines found; narrow the query or the path]",
    ]
    assert len(tools.search_text("hit", "many.txt", max_results=100).splitlines()) == 101
    (folder / "wide.txt").write_text("x" * 100_000 + "needle" + "y" * 100_000 + "\n")
    line = tools.search_text("needle", "wide.txt").splitlines()[0]
    assert "needle" in line
    assert len(line) < 2200
    for query in ("", "x" * 1001):
        with pytest.raises(Refused, match="1 to 1000 characters"):
            tools.search_text(query)


@pytest.mark.parametrize(
    ("bound", "value", "words"),
    [
        ("_MAX_SCANNED_FILES", 2, "stopped after 2 files"),
        ("_MAX_SCANNED_BYTES", 1, "stopped after 1 bytes"),
        ("_MAX_SECONDS", -1.0, "stopped after -1 seconds"),
    ],
)
def test_a_search_that_reaches_a_bound_says_so(tools, monkeypatch, bound, value, words):
    monkeypatch.setattr(_finding, bound, value)
    assert words in tools.search_text("tea")


def test_time_is_looked_at_in_folders_without_files_too(tools, folder, monkeypatch):
    for number in range(3):
        (folder / "empty" / str(number)).mkdir(parents=True)
    for module in (_finding, _listing):
        monkeypatch.setattr(module, "_MAX_SECONDS", -1.0)
    assert "stopped after -1 seconds" in tools.search_text("tea", "empty")
    assert tools.list_files("empty", "*.md").splitlines() == [
        "[no file below 'empty' fits '*.md']",
        "[stopped after -1 seconds: list a smaller folder]",
    ]


def test_a_list_that_reaches_its_bound_of_entries_says_so(tools, monkeypatch):
    monkeypatch.setattr(_listing, "_MAX_SCANNED", 2)
    assert tools.list_files(".", "*.txt").splitlines()[1:] == [
        "[stopped after 2 files and folders: list a smaller folder]"
    ]


def test_what_could_not_be_searched_is_counted_but_a_named_file_is_refused(tools, folder):
    with (folder / "huge.txt").open("wb") as huge:
        huge.truncate(10**12)
    assert "1 too large" in tools.search_text("tea")
    with pytest.raises(Refused, match="larger than"):
        tools.search_text("tea", "huge.txt")
    with pytest.raises(Refused, match="is a pipe"):
        tools.search_text("tea", "pipe")


def test_a_missing_file_is_answered_with_what_is_there(tools, folder):
    def explained(path: str) -> str:
        with pytest.raises(Refused) as caught:
            tools.read_lines(path)
        return tools.explain(caught.value)

    assert explained("notes/c.md") == (
        "no such file 'c.md' in 'notes'; in it are: b.md, deep/, grüße 🎈.txt"
    )
    assert explained("note/b.md").startswith("no such file 'note' in '.'; in it are: notes/, ")
    assert explained("notes/deep/x") == "no such file 'x' in 'notes/deep'; in it are: c.md"
    for number in range(30):
        (folder / "notes" / f"{number}.txt").write_text("")
    assert explained("notes/zzz").endswith(" and 13 more")


def test_long_names_that_look_alike_are_compared_for_a_moment_only(tools, folder, monkeypatch):
    random, look, compared = Random(1), difflib.get_close_matches, []

    def counted(name, names, **bounds):
        compared.extend(len(name) * len(other) for other in names)
        return look(name, names, **bounds)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    for _ in range(600):
        (folder / "notes" / "".join(random.choices("ab", k=190))).write_text("")
    with pytest.raises(Refused) as caught:
        tools.read_lines("notes/" + "ab" * 95)
    assert "no such file" in tools.explain(caught.value)
    assert 2_900_000 < sum(compared) <= 3_000_000
