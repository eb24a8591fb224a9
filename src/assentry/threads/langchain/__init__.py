"""The one room under `threads` that knows LangChain's libraries.

It is imported only when an object or a name of theirs is asked for; this module itself imports nothing of them.
"""
