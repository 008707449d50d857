"""Orchestrators that run. Each checks what it claims; `make demo` runs `review_team`."""
