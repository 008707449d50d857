"""One call, from the request to what the model reads.

calling.py    a call and its time; rounds.py: what the new era asks on the way
asking.py     one call at a time, where an old server may ask; callbacks.py: its questions
results.py    what a model reads and sees; structured.py; outputs.py: what a tool has promised
logs.py       what a server logs; flood.py: at most so much of it
"""
