"""An adapter or a store whose library is not installed says which extra installs it."""

import importlib
import sys

import pytest

import assentry.store
from assentry import Approvals, UsageError


def without(patch: pytest.MonkeyPatch, library: str) -> None:
    """Let imports of a library and of its modules fail."""
    names = {library, *(name for name in sys.modules if name.startswith(f"{library}."))}
    for name in names:
        patch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    ("adapter", "library", "extra"),
    [
        ("ag_ui", "ag_ui", "ag-ui"),
        ("langchain", "langchain", "langchain"),
        ("langgraph", "langchain_core", "langchain"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_an_adapter_names_its_extra(adapter: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"assentry.outside.{adapter}"
    for name in [each for each in sys.modules if each == module or each.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    without(monkeypatch, library)
    with pytest.raises(UsageError) as refused:
        importlib.import_module(module)
    words = str(refused.value)
    assert f"needs {library}" in words and words.endswith(
        f'pip install ".[{extra}]", in the folder of Assentry\'s source.'
    )


@pytest.mark.parametrize(
    ("name", "module", "extra"), [("SQLiteStore", "sqlite", "store"), ("PostgresStore", "postgres", "postgres")]
)
def test_a_store_names_its_extra(name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, f"assentry.store.{module}")
    with pytest.raises(UsageError) as refused:
        getattr(assentry.store, name)
    assert f'pip install ".[{extra}]"' in str(refused.value)


def test_an_inbox_without_https_is_no_inbox() -> None:
    with pytest.raises(UsageError, match=r"begins with https://; 'inbox.example.com' is none"):
        Approvals("inbox.example.com", source="shop", token="t")
