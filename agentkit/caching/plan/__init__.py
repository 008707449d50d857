"""The planner: pure, from a draft, a policy and what was written before to marks and a price.

draft.py  what it is given; plan.py: what it answers
"""
