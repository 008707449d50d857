"""What servers by others work on: a folder with a Git repository, and a small web site.

The site also answers, as far as one call needs it, like the services that some servers speak to.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_PAGE = b"<html><body><h1>Harbour museum</h1><p>Closed on Mondays.</p></body></html>"
_SERVICES: Mapping[str, object] = {
    "/api/v4/projects/1": {"id": 1, "name": "boats", "description": "Harbour museum"},  # GitLab
    "/rest/api/2/myself": {"accountId": "1", "displayName": "Nobody"},  # Jira
    "/rest/api/2/project": [{"id": "1", "key": "BOAT", "name": "Harbour museum"}],
}


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
        """Answer as a service where there is one at the path, else with the only page there is."""
        found = _SERVICES.get(self.path.partition("?")[0])
        body = _PAGE if found is None else json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if found is None else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
