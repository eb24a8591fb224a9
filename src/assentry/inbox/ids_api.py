"""The HTTP API's route that finds ids by their beginning."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response

from ..store.beginning import WithId
from ..store.record import GrantRecord, Question, RunRecord
from . import openapi as d
from .api import Here, Reader, exact, json_response
from .loops import OwnLoopRoute
from .model import NO_NUL, IdList

router = APIRouter(dependencies=[Depends(exact)], route_class=OwnLoopRoute)

KINDS: dict[str, WithId] = {"question": Question, "run": RunRecord, "grant": GrantRecord}

Beginning = Annotated[str, Query(min_length=1, max_length=200, pattern=NO_NUL)]


@router.get("/api/ids", responses=d.answers("IdList"))
async def list_ids(
    inbox: Here,
    who: Reader,
    kind: Literal["question", "run", "grant"],
    beginning: Beginning,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Response:
    """List the ids of questions, runs or grants that begin with a text."""
    return json_response(IdList(await inbox.store.ids(KINDS[kind], beginning, limit=limit)))
