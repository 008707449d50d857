"""Wire traffic of tests, at the transport of the HTTP clients that all vendors' SDKs use.

intercept.py  stands between the clients and the network
forbidden.py  the switch that lets no request out
cassette.py   what was said, recorded and replayed; secrets.py: what is never written down
"""
