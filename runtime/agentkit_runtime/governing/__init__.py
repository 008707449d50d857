"""What keeps a server answering when more is asked of it than it can do.

pressure   how close the engine is to its limits, as one number
gate       who may come in now, and when to come again: pressure, queue limits, draining
complexity bounds on what one request may ask for, before anything is rendered or compiled
lifecycle  starting, ready, draining, stopped

Nothing here knows a dialect. `api.answering` asks the gate about every request.
"""
