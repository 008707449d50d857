"""An MCP server with a small memory that lasts: `python -m agentkit_tools.notes FILE`.

Notes are added and never changed or deleted; a note can replace an older one, which stays. So what
a model has once read of the list stays true: listing later gives the same lines, then new ones
(`list_notes` has no heading or footer that counts). Without `--times` no answer depends on a clock.

Threat model. Whoever calls the tools is hostile; whoever started the server is not.

- Only FILE is written (an SQLite database, made with access for its owner only, and SQLite's own
  journal beside it), and no other file is read. Nothing in a query is syntax for the database.
- No call can change or delete a note: there is no tool for it, and the database refuses it.
- A note has at most 4,000 characters and 8 tags, the file 10,000 notes; every answer is bounded in
  size and every query in time.
- Several processes may use FILE at once. A note that was answered with its id is on the disk; a
  crash in the middle leaves the notes as they were. FILE should lie on a local disk.
- What a note says is not checked, but its lines are set in (in lists it stands behind a colon), so
  that it cannot pass for another note, or for a tag or a replacement of its own. Whoever could
  write one can mislead whoever reads it later, so a client should take notes for data. Nothing is
  encrypted, and whoever can write to FILE directly can do anything to it.

The server speaks on stdout and logs to stderr; it ends when its stdin does. `--http` serves every
user of this machine.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
import unicodedata
from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

from agentkit_tools._errors import Refused
from agentkit_tools._note_store import Note, NoteStore
from agentkit_tools._query import MAX_QUERY_CHARS, match_expression
from agentkit_tools._serve import (
    READS,
    REPEATABLE,
    THREADS_END_WITHIN_S,
    log,
    make_parser,
    make_server,
    serve,
    strict_tool,
)
from agentkit_tools._text import fitting

MAX_NOTE_CHARS = 4000
MAX_TAGS = 8
MAX_TAG_CHARS = 40

_MAX_LISTED = 500
_MAX_FOUND = 50
_MAX_ID = 1_000_000_000
_SHOWN_CHARS = 160
_LINE_ENDS = re.compile("\r\n|[\n\r\u2028\u2029]")

# A second call with the same note adds nothing.
_Text = Annotated[str, Field(min_length=1, max_length=MAX_NOTE_CHARS)]
_Id = Annotated[int, Field(ge=1, le=_MAX_ID)]
_Tags = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARS)], ...],
    Field(max_length=MAX_TAGS, description="words to find the note by"),
]
_Tag = Annotated[str, Field(max_length=MAX_TAG_CHARS, description="only notes with this tag")]
_After = Annotated[int, Field(ge=0, le=_MAX_ID, description="only notes with a larger id")]


def build_server(store: NoteStore) -> MCPServer:
    """The server over an open store. The caller closes the store after the server has ended."""
    tools = NoteTools(store)
    return make_server(
        "agentkit-notes",
        "Keeps notes for later. They are never changed; a note can replace an older one.",
        [
            *(
                strict_tool(method, annotations=READS)
                for method in (
                    tools.list_notes,
                    tools.read_note,
                    tools.search_notes,
                    tools.export_notes,
                )
            ),
            *(
                strict_tool(method, annotations=REPEATABLE)
                for method in (tools.add_note, tools.replace_note)
            ),
        ],
    )


class NoteTools:
    """The tools. Each returns text for a model, or raises `Refused` with what to do instead."""

    def __init__(self, store: NoteStore) -> None:
        self._store = store

    def add_note(self, text: _Text, tags: _Tags = ()) -> str:
        """Keep a note. The same note again is kept once."""
        number, is_new = self._store.add(_checked(text), _checked_tags(tags))
        return f"kept as note {number}" if is_new else f"kept already, as note {number}"

    def replace_note(self, id: _Id, text: _Text, tags: _Tags = ()) -> str:
        """Keep a note that takes the place of an older one. The older one can still be read."""
        number, is_new = self._store.add(_checked(text), _checked_tags(tags), replaces=id)
        if not is_new and self._store.get(number)[0].replaces != id:
            raise Refused(f"note {number} says the same already; nothing was replaced")
        return f"kept{'' if is_new else ' already,'} as note {number}, which replaces note {id}"

    def list_notes(self, after: _After = 0, tag: _Tag = "") -> str:
        """List notes, oldest first, a line each. A later note may replace an earlier one."""
        notes = self._store.after(after, tag.strip(), _MAX_LISTED + 1)
        lines = fitting([_line(note) for note in notes[:_MAX_LISTED]])
        more = [_go_on("list_notes", notes[len(lines) - 1])] if len(lines) < len(notes) else []
        return "\n".join(["id [tags]: note", *lines, *more])

    def read_note(self, id: _Id) -> str:
        """Read one note in full."""
        note, later = self._store.get(id)
        replaced = f"\n[replaced by note {later}]" if later else ""
        return f"{_whole(note)}{replaced}"

    def search_notes(
        self,
        query: Annotated[
            str,
            Field(
                max_length=MAX_QUERY_CHARS,
                description='words (any may occur), "a phrase" (must occur), the start of a word '
                "with a star (pars*)",
            ),
        ],
        tag: _Tag = "",
        with_replaced: Annotated[bool, Field(description="replaced notes too")] = False,
        max_results: Annotated[int, Field(ge=1, le=_MAX_FOUND)] = 10,
    ) -> str:
        """Find notes by words, best first."""
        notes = self._store.search(
            match_expression(query), tag.strip(), max_results + 1, with_replaced=with_replaced
        )
        if not notes:
            return "[no note has one of these words]"
        blocks = fitting([_whole(note) for note in notes[:max_results]])
        more = ["[there is more]"] if len(blocks) < len(notes) else []
        return "\n\n".join([*blocks, *more])

    def export_notes(self, after: _After = 0) -> str:
        """Give notes as lines of JSON, oldest first, as many as an answer holds."""
        notes = self._store.after(after, "", _MAX_LISTED + 1)
        lines = fitting([_json(note) for note in notes[:_MAX_LISTED]])
        more = [_go_on("export_notes", notes[len(lines) - 1])] if len(lines) < len(notes) else []
        return "\n".join([*lines, *more])


def main(arguments: list[str] | None = None) -> int:
    """Serve until stdin ends. Returns the exit code."""
    parser = make_parser("notes", __doc__)
    parser.add_argument("file", help="an SQLite file; it is made if it is not there")
    parser.add_argument(
        "--times", action="store_true", help="keep with each note when it was added, and show it"
    )
    options = parser.parse_args(arguments)
    try:
        store = NoteStore(options.file, now=_now if options.times else None)
    except (OSError, Refused, ValueError, sqlite3.Error) as error:
        log(f"cannot keep notes in {options.file!r}: {error}")
        return 2
    try:
        return serve(
            build_server(store),
            repr(options.file),
            options.http,
            ends_within_s=THREADS_END_WITHIN_S,
        )
    finally:
        store.close()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _checked(text: str) -> str:
    """The text without white space around it."""
    text = text.strip()
    if not text:
        raise Refused("the note is empty; say what is to be kept")
    for char in text:
        if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t\r":
            raise Refused(f"the note has the character {char!r}, which no text has; leave it out")
    return text


def _checked_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """The tags in order, each once."""
    for tag in tags:
        if not tag.strip().isprintable() or not tag.strip() or set(tag) & set('[],"\n'):
            raise Refused(f"{tag!r} is no tag; use a word without brackets, commas and quotes")
    return tuple(sorted({tag.strip() for tag in tags}))


def _head(note: Note) -> str:
    tags = f" [{', '.join(note.tags)}]" if note.tags else ""
    replaces = f" (replaces {note.replaces})" if note.replaces else ""
    made_at = f" {note.made_at}" if note.made_at else ""
    return f"{note.id}{made_at}{tags}{replaces}:"


def _whole(note: Note) -> str:
    """A note over several lines. Its own are set in, so that none passes for another note."""
    return "\n".join([_head(note), *(f"  {line}" for line in _LINE_ENDS.split(note.text))])


def _line(note: Note) -> str:
    # What stands behind the first colon is the note's own, whatever it looks like.
    text = " ".join(note.text.split())
    cut = f" ... [{len(note.text)} characters]" if len(text) > _SHOWN_CHARS else ""
    return f"{_head(note)} {text[:_SHOWN_CHARS]}{cut}"


def _json(note: Note) -> str:
    fields = {
        "id": note.id,
        "made_at": note.made_at,
        "replaces": note.replaces,
        "tags": list(note.tags),
        "text": note.text,
    }
    line = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return line.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _go_on(tool: str, last: Note) -> str:
    return f"[there is more: {tool} with after={last.id}]"


if __name__ == "__main__":
    sys.exit(main())
