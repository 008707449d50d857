"""Shows people what a run did.

report.py  the cache report on a terminal
"""
