"""Where KV goes when the device is full: host memory, and disk behind it.

base.py        the seam: blocks of 16 tokens, named by a chain hash; no torch here
open.py        measure, and put the parts together
tiered.py      host memory with disk behind it, as the cache sees them
saving.py      from slots to host memory; write_behind.py: from there to disk
fetch.py       back into slots
host.py        which block lies where in host memory; arena.py: that memory
disk.py        files in a folder; disk_open.py, disk_index.py, disk_file.py: parts of it
worth.py       what an engine has learned about its speeds; breakeven.py: when fetching pays
measure.py     speeds at start
changes.py     what listeners are told
keys.py        the namespace key beside the files: without it a restart would find nothing
"""
