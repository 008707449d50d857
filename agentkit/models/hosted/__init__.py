"""Models behind a provider's API.

wire.py  what an adapter is: lays a request out in cache order, fills in a plan, sends the bytes
"""
