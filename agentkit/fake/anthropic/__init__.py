"""The Messages API: parse.py with settings.py and checks.py, answer.py, diagnose.py."""
