"""The lines of a server's output, however they arrive and however long they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.mcp.sdk_words import TOO_LARGE
from assentry.mcp.stdio_transport import LineReader, Stderr, _message


class Chunks:
    """A stream that hands out these bytes."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


def read(chunks: list[bytes], limit: int) -> list[tuple[bytes, int]]:
    async def main() -> list[tuple[bytes, int]]:
        stream: Any = Chunks(chunks)
        return [each async for each in LineReader(stream, limit)]

    return asyncio.run(main())


@given(
    st.lists(st.binary(max_size=2000).filter(lambda line: b"\n" not in line), max_size=8),
    st.lists(st.integers(1, 700), min_size=1),
    st.integers(1, 1500),
)
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], sizes: list[int], limit: int) -> None:
    text, chunks = b"".join(line + b"\n" for line in lines), []
    while text:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(text[:size])
        text = text[size:]
    found = read(chunks, limit)
    assert [length for _, length in found] == [len(line) for line in lines]
    for line, (kept, length) in zip(lines, found, strict=True):
        if length <= limit:
            assert kept == line
        else:
            assert kept.startswith(line[:256]) and kept.endswith(line[-1:])


def test_a_line_without_an_end_is_the_last_one() -> None:
    assert read([b"a\nb"], 10) == [(b"a", 1), (b"b", 1)]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 7, "result": {"text": "x" * 5000, "id": 8}},
        {"id": 7, "jsonrpc": "2.0", "result": {"id": 8, "text": "x" * 5000}},
        {"result": {"id": 8, "text": "x" * 5000}, "jsonrpc": "2.0", "id": 7},
        {"result": {"text": "x" * 5000, "id": 8}, "id": 7, "jsonrpc": "2.0"},
    ],
)
def test_a_message_over_the_limit_is_an_error_of_its_own_request(message: Any) -> None:
    text = json.dumps(message).encode() + b"\n"
    [(line, length)] = read([text[at : at + 100] for at in range(0, len(text), 100)], 1000)
    told: Any = _message(line, length, 1000, Stderr())
    assert told.message.id == 7
    assert told.message.error.code == TOO_LARGE


@pytest.mark.parametrize("text", [b'{"result": {"id": 8}, "text": "%s"}', b'["%s"]', b"%s"])
def test_a_message_over_the_limit_without_an_id_belongs_to_nobody(text: bytes) -> None:
    [(line, length)] = read([text % (b"x" * 5000)], 1000)
    assert isinstance(_message(line, length, 1000, Stderr()), ValueError)
