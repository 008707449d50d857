"""Where KV goes when the device is full: host memory, and disk behind it.

base.py    the seam: blocks of 16 tokens, named by a chain hash; no torch here
"""
