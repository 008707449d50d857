"""What is known about a provider's cache while an app runs.

tracker.py  read first: plans a request, follows it, judges what came back
scale.py    token estimates, corrected by what the provider counted
fronts.py   how long a front rests between two runs
gaps.py     how long tools take, learned from the gaps between requests
implicit.py how well an implicit cache keeps its word
flights.py  requests under way, and who should wait for whom
shadow.py   a simulator of the provider's cache, and the rules day by day
"""
