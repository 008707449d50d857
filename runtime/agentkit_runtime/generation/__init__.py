"""What happens between a step's logits and the caller: choosing, checking and handing out tokens.

rows.py      a step's logits, with what all rows need computed in one call
logprobs.py  log-probabilities of the chosen tokens
drafting.py  guesses of the next tokens from the request's own text
run.py       one request's state beside the scheduler's; accepts tokens
batch.py     the tensors of one forward pass
shortage.py  a step that did not fit into memory
poison.py    cached numbers that are none
samples.py   n requests from one
"""
