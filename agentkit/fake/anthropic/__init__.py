"""The Messages API: parse.py with checks.py, answer.py, diagnose.py."""
