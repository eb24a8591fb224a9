"""Ids by their beginning, in every store and over HTTP."""

from __future__ import annotations

import pytest

import assentry.inbox
from assentry.errors import UsageError
from assentry.store import GrantRecord, Store
from assentry.store.record import Question, RunRecord
from tests.inbox.office import ask_everything
from tests.inbox.support import Tokens, bearer, client_of, live_store

__all__ = ["live_store"]  # a fixture


async def test_a_store_finds_ids_by_their_beginning(live_store: Store) -> None:
    async with live_store as store:
        made = await ask_everything(store)
        every = sorted(each.id for each in made.values())
        assert await store.ids(Question, "q_") == every
        assert await store.ids(Question, "q_", limit=3) == every[:3]
        assert await store.ids(RunRecord, "run_", limit=100) == sorted(each.run for each in made.values())
        assert await store.ids(Question, every[0]) == every[:1]
        assert await store.ids(Question, every[0] + "0") == await store.ids(GrantRecord, "q_") == []
        for wrong in ("q%", "q_%", "q?", "'", "\\"):
            assert await store.ids(Question, wrong) == []
        for beginning, limit in (("", 10), ("q\ud800", 10), ("q", 0)):
            with pytest.raises(UsageError):
                await store.ids(Question, beginning, limit=limit)


async def test_the_api_finds_ids_for_whoever_may_read(live_store: Store) -> None:
    async with live_store as store:
        made = await ask_everything(store)
        async with client_of(assentry.inbox.app(store, Tokens())) as http:
            given = {"kind": "question", "beginning": made["refund"].id[:12]}
            answer = await http.get("/api/ids", params=given, headers=bearer("vera", "viewer"))
            assert (answer.status_code, answer.json()) == (200, {"items": [made["refund"].id]})
            for wrong in ({"kind": "token"}, {"beginning": ""}, {"limit": "1000"}, {"more": "1"}):
                refused = await http.get("/api/ids", params={**given, **wrong}, headers=bearer("vera", "viewer"))
                assert refused.status_code == 422
