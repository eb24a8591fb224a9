"""The description of the API is exact: schemathesis sends what it allows and what it does not, and compares."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks as c

import assentry.inbox
from assentry.inbox.openapi import description
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing.store_checks.draft import put_asking
from tests.draws import examples
from tests.inbox.support import Tokens, bearer

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"


def described() -> dict[str, Any]:
    return description(assentry.inbox.app(MemoryStore(), Tokens()), "")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("inbox") / "inbox.db"

    async def fill() -> None:
        async with SQLiteStore(path) as store:
            for _ in range(3):
                await put_asking(store)
            await store.announce({"Clerk": '{"fact":"began","agent":"Clerk","max_turns":10}'})

    asyncio.run(fill())
    app = assentry.inbox.app(SQLiteStore(path), Tokens())
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=bearer("root", "admin"))


CHECKS = [
    not_a_server_error,
    c.status_code_conformance,
    c.content_type_conformance,
    c.response_headers_conformance,
    c.response_schema_conformance,
    c.negative_data_rejection,
    c.unsupported_method,
    c.use_after_free,
]


ROUTES = [
    (path, method, mode)
    for path, operations in described()["paths"].items()
    for method in operations
    for mode in GenerationMode
    if path != "/api/events"  # it never ends; test_events has it
]


@pytest.mark.parametrize(("path", "method", "mode"), ROUTES)
def test_the_api_does_what_its_description_says(api: Any, path: str, method: str, mode: GenerationMode) -> None:
    @hypothesis.settings(max_examples=examples(20), deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(case=api[path][method].as_strategy(generation_mode=mode))
    def check(case: Case) -> None:
        # In an address, a list of one text is that text, which is not wrong at all.
        hypothesis.assume(not any(type(value) is list and len(value) == 1 for value in (case.query or {}).values()))
        hypothesis.assume(len(repr(case.query)) < 600)  # schemathesis does not take 414 for a refusal
        case.call_and_validate(headers=bearer("root", "admin"), checks=CHECKS)

    with suppress(hypothesis.errors.Unsatisfiable):  # nothing can be wrong in a route that takes nothing
        check()


def test_every_object_in_a_response_is_described_in_full() -> None:
    schemas = described()["components"]["schemas"]
    assert all(each["additionalProperties"] is False for each in schemas.values() if "properties" in each)
    assert schemas["Question"]["required"] == list(schemas["Question"]["properties"])


def test_every_problem_is_described_where_it_can_happen() -> None:
    for path, operations in described()["paths"].items():
        for method, about in operations.items():
            answers = about["responses"]
            assert about["summary"] and about["description"], path
            assert {"500", "502"} <= answers.keys(), path
            assert path == "/health" or {"401", "403", "422"} <= answers.keys(), path
            assert method == "get" or "requestBody" in about or method == "delete", path


def test_every_route_and_status_is_in_the_reference() -> None:
    text = PAGE.read_text()
    for path, operations in described()["paths"].items():
        for method, about in operations.items():
            [line] = [each for each in text.splitlines() if each.startswith(f"| `{method.upper()} {path}`")]
            told = {word for word in line.split("|")[3].replace(",", " ").split() if word.isdecimal()}
            assert told == about["responses"].keys() - {"401", "403", "414", "422", "500", "502"}, path
