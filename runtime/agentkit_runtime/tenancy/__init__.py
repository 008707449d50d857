"""Who may use a server, as which tenant, and how much.

key            what an API key looks like; hashing and telling keys apart
terms          what a tenant may do: rates, budgets, bounds of a request
store          keys and tenants as they are kept; changed by `agentkit-runtime keys`
store_file     the SQLite file of it; records: its values
live           the store as a running server sees it: changes count at once
authenticator  credentials in headers -> `Caller`
bucket         token buckets; accounts: what each tenant has used; upkeep: writes it down
gate           lets requests in by their tenant's terms, and sets aside what they may cost
estimates      which of that is only estimated, and who waits to know more
book           tenants as operators name and change them while a server runs
rate_headers   tells clients what is left, in the names of their API

A tenant is what shares a radix tree root, limits and bills: a team, an application, a customer.
A key belongs to one tenant; a tenant can have many keys.
"""
