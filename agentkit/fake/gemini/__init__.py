"""Gemini: generateContent and its stream (parse.py, answer.py), cachedContents (contents.py)."""
