"""MCP tool servers that are useful by themselves; each runs with `python -m agentkit_tools.NAME`.

files.py   list, read, search and (without --read-only) write the files below one folder
           _root.py confines paths (_paths.py names them), _changes.py writes, _editing.py and
           _replace.py edit, _finding.py finds, _regex_worker.py runs regular expressions where they
           can be stopped, _listing.py lists, _reading.py shows lines
search.py  ranks the texts of one folder, from a snapshot
           _scan.py chooses files, _chunking.py parts them, _snapshots.py indexes, _query.py asks
notes.py   a memory to which is only added; _note_store.py keeps it
_serve.py  what all servers share; _database.py holds SQLite, _text.py and _names.py show texts
Nothing here imports agentkit or agentkit_runtime.
"""
