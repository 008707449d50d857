"""A model behind HTTP: what `agentkit-runtime serve` runs.

config   all that can be set, as one value
access   who may reach the server: loopback, keys, origins, TLS
certificate  follows the files of TLS while the server runs
parts    the parts of a server put together: gates, keys, watchers, endpoints
warm_up  the first request, before anybody's
run      listens, loads, serves, drains
"""
