"""The MCP gateway: an MCP server in front of another one, whose tools it offers, each call after the gate.

A client's call is judged by the rules, a person is asked where they say so, and the call runs once at the server
behind.
`assentry gateway` starts it. Needs the extra "mcp".
"""
