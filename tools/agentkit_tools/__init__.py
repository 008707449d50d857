"""MCP tool servers that are useful by themselves; each runs with `python -m agentkit_tools.NAME`.

files.py   list, read and search the files below one folder, read-only
           _root.py confines paths, _text.py and _names.py decode and show, _search.py finds,
           _regex_worker.py runs regular expressions where they can be stopped
Nothing here imports agentkit or agentkit_runtime.
"""
