"""Resources and prompts: what a server has to read.

reading.py        the methods of a connection; resources.py, prompts.py: their values
resource_tool.py  a tool with which a model reads resources
about.py          what a server says of itself
"""
