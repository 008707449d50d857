"""What a server offers: fetched, judged, named, kept and compared.

lists.py      the list of one connection, from the disk or the server; relisting.py: when to ask
listing.py    all pages (paging.py), each tool judged by itself; names.py: legal everywhere
offered.py    the newest list, beside what conversations were shown
changes.py    how two lists differ; describing.py: in words; words.py: in bounded room
listing_cache.py  what is kept on disk, for the time that the server says
"""
