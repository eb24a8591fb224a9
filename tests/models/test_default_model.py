"""The model of an agent that has none: what is set, what the environment says, what is installed, or a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from assentry import (
    Agent,
    EmbeddedModel,
    InvalidDefinition,
    OpenAIResponsesModel,
    Runner,
    UsageError,
    set_default_model,
)
from assentry.models import default
from assentry.models.default import default_model
from assentry.testing import ScriptedModel


@pytest.fixture(autouse=True)
def unset() -> Iterator[None]:
    yield
    set_default_model(None)


def test_without_any_one_sentence_names_the_ways() -> None:
    with pytest.raises(UsageError) as caught:
        Runner.run_sync(Agent("a"), "go")
    assert str(caught.value) == (
        "Agent 'a' has no model; give Agent(model=...) or RunConfig(model=...), call set_default_model(...), set "
        "ASSENTRY_MODEL to a model's name or OPENAI_API_KEY to a key, or install the embedded model: "
        "assentry models install embedded"
    )


def test_the_model_that_was_set_is_used_by_agents_without_one() -> None:
    set_default_model(ScriptedModel(["by default"]))
    assert Runner.run_sync(Agent("a"), "go").final_output == "by default"
    assert Runner.run_sync(Agent("a", model=ScriptedModel(["its own"])), "go").final_output == "its own"


def test_the_embedded_model_is_used_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default, "missing_parts", list)
    assert isinstance(default_model("a"), EmbeddedModel)


def test_a_key_selects_openais_default_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default, "missing_parts", list)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model = default_model("a")
    assert isinstance(model, OpenAIResponsesModel) and model.name == "gpt-5.2"
    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", "o4-mini")
    assert default_model("a").name == "o4-mini"


def test_the_environments_name_comes_before_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("ASSENTRY_MODEL", "embedded")
    assert isinstance(default_model("a"), EmbeddedModel)


def test_what_was_set_comes_before_the_environment_and_none_unsets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENTRY_MODEL", "embedded")
    set_default_model("gpt-5.2")
    assert isinstance(default_model("a"), OpenAIResponsesModel)
    set_default_model(None)
    assert isinstance(default_model("a"), EmbeddedModel)


def test_a_wrong_name_in_the_environment_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENTRY_MODEL", "nobody/nothing")
    with pytest.raises(InvalidDefinition, match="ASSENTRY_MODEL: no provider is known for the model 'nobody/nothing'"):
        Runner.run_sync(Agent("a"), "go")


@pytest.mark.parametrize("wrong", [5, "nobody/nothing", ""])
def test_what_is_no_model_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(InvalidDefinition, match="set_default_model"):
        set_default_model(wrong)
