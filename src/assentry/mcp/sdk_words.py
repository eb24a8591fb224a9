"""The SDK's error codes and words by which cases are told apart. It gives no types for these."""

from __future__ import annotations

CONNECTION_CLOSED, HEADER_MISMATCH, URL_ELICITATION_REQUIRED, PARSE_ERROR, INVALID_PARAMS = (
    -32000,
    -32020,
    -32042,
    -32700,
    -32602,
)
TOO_LARGE = -32098
"""The code of our own error that stands for an answer over the limit. It never goes over the wire."""
NO_SESSION = ("Session terminated", "Not Found")
"""The words for a server that has not, or no more, the session of this connection."""
NO_REASON = "Server returned an error response"
"""The words for an HTTP error without a JSON-RPC error, such as that of a gateway."""
LIMIT = "byte limit"
"""A part of the words for an event that is too large."""
