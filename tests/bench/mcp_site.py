"""What servers by others work on: a folder with a Git repository, and a small web site."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_PAGE = b"<html><body><h1>Harbour museum</h1><p>Closed on Mondays.</p></body></html>"


def work_folder(folder: Path) -> Path:
    """Fill a folder with a note, a database and a repository of them, and return it."""
    (folder / "note.md").write_text("the boat is lifted by 30 April\n")
    with contextlib.closing(sqlite3.connect(folder / "boats.db")) as boats, boats:
        boats.execute("CREATE TABLE boats (name TEXT)")
        boats.execute("INSERT INTO boats VALUES ('Greta')")
    who = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    for arguments in (["init", "-q"], ["add", "note.md"], ["commit", "-qm", "The first commit"]):
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True)
    return folder


@contextlib.contextmanager
def serve_site() -> Iterator[str]:
    """A web site on this machine; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the only page there is."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
