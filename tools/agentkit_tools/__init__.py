"""MCP tool servers that are useful by themselves; each runs with `python -m agentkit_tools.NAME`.

files.py   list, read, search and (without --read-only) write the files below one folder
           _root.py confines paths (_paths.py names them), _changes.py writes (_writable_names.py
           says where), _editing.py and _replace.py edit, _finding.py finds, _regex_worker.py runs
           regular expressions where they can be stopped, _listing.py lists, _reading.py shows lines
search.py  ranks the texts of one folder, from a snapshot
           _scan.py chooses files, _chunking.py parts them, _indexing.py takes them into the index
           of _snapshots.py, _query.py asks
notes.py   a memory to which is only added; _note_store.py keeps it
sql.py     one SQLite or PostgreSQL database (_sql_database.py), read-only without --write
           _sql_worker.py is its child process: _sqlite.py (_sqlite_schema.py), _postgres.py
           (_postgres_session.py, _postgres_catalog.py), _table.py shows rows
http.py    fetches pages of the public web as text (extra `tools`)
           _web_rules.py and _addresses.py decide what may be reached, _fetching.py gets it,
           _page_text.py decodes it, _markdown_worker.py converts it in a child process without what
           nobody sees (_unseen.py, _colours.py)
python.py  runs programs under limits; _sandbox.py asks _jail.py, which supervises them:
           _jailed.py becomes the program, _namespaces.py confines, _orphans.py finds what is left,
           _made_files.py what was made, _memory.py what it takes; _scratch.py is its folder
_worker.py runs child processes that can be killed; _limits.py is their end of it
_serve.py  what all servers share, _stdin.py ends them; _database.py holds SQLite, _text.py and
           _names.py show texts
Nothing here imports agentkit or agentkit_runtime.
"""
