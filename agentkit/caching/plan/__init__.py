"""The planner: pure, from a draft, a policy and what was written before to marks and a price.

planner.py     read first: plan(draft, policy, written, now)
draft.py       what it is given, plan.py what it answers; expect.py: how often a prefix is needed
ends.py        learns whether the end of an agent's request is read again
needs.py       which later requests want an entry of this prompt, and what each of them will pay
span.py        how far to write, and how much of it for long: the cheapest by expectation
marks.py       which marks that takes, and which lead to what can be read; placing.py: all of it
anthropic.py   and openai_marks.py: the rules that decide where marks go
openai_intervals.py, deepseek.py, gemini.py, compatible.py: hints, objects and predictions
keys.py        cache keys, salts, and how busy keys are split; keep_alive.py: when a ping pays
users.py       which of the user's marks count, and which give way
prompt.py      a prompt as marks see it; lives.py: prices and lifetimes; predict.py, notes.py
"""
