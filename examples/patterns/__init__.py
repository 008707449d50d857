"""Twenty lines each: orchestrations that need no classes of their own, on `run` and `fan_out`."""
