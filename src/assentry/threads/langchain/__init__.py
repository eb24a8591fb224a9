"""LangChain's and LangGraph's own objects, converted at the edge of `assentry.threads`, both ways.

Only this package and `assentry.models.langchain` import those libraries. Other modules import this package inside
functions, once they have been given such an object; see `threads/foreign.py`.
"""
