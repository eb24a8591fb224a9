"""Which items a provider accepts as history, where it repeats its ids."""

from typing import Any

import pytest

from assentry.runtime.session_sync import accepted_items

USER = {"role": "user", "content": "go"}
THOUGHT = {"type": "reasoning", "id": "r1", "summary": []}


def made(name: str, id: str = "p1") -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": "{}", "call_id": id}


def gave(text: str, id: str = "p1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": text}


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        ([USER, made("a"), made("b"), gave("a"), gave("b")], [0, 1, 2, 3, 4]),
        ([USER, made("a"), made("b", "p2"), made("c"), gave("a"), gave("b", "p2"), gave("c")], [0, 1, 2, 3, 4, 5, 6]),
        ([USER, made("a"), gave("a"), made("b"), gave("b")], [0, 1, 2, 3, 4]),
        ([USER, made("a"), made("b"), gave("a")], [0, 1, 3]),
        ([USER, made("a"), gave("a"), gave("b")], [0, 1, 2]),
        ([USER, THOUGHT, made("lost"), USER, made("b"), gave("b")], [0, 3, 4, 5]),
        ([made("lost"), made("b", "p2"), gave("b", "p2"), made("c"), gave("c")], [1, 2, 3, 4]),
        ([gave("a"), USER, made("a"), USER, gave("a")], [1, 3]),
    ],
)
def test_each_call_keeps_its_own_output_though_ids_are_repeated(items: list[Any], kept: list[int]) -> None:
    assert accepted_items(items) == [items[n] for n in kept]
