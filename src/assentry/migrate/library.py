"""A library that programs come from: the table of what its modules, names and keywords are called here.

A row that needs a person has the sentence for them. How a program is read and rewritten does not belong here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError


@dataclass(frozen=True)
class CallNote:
    """A call that a person has to look at: it means something else here."""

    name: str
    """The name that is called, with its class if it is a method."""
    says: str
    unless: tuple[str, ...] = ()
    """Keywords with which the call means the same."""
    only_with: tuple[str, ...] = ()
    """Keywords without which the call means the same."""
    native: bool = False
    """True if the call means the same on the skin."""

    def fits(self, called: str, keywords: Iterable[str]) -> bool:
        """Return True if a call of this qualified name, with these keywords, is one to look at."""
        given = set(keywords)
        if called != self.name and not called.endswith(f".{self.name}"):
            return False
        return not given & set(self.unless) and (not self.only_with or bool(given & set(self.only_with)))


@dataclass(frozen=True, eq=False)
class Library:
    """The table of one library."""

    title: str
    module: str
    """The name that programs import."""
    distribution: str
    """The name that is installed."""
    guide: str
    skins: Mapping[str, str]
    """The modules that have the library's own names here, by the library's module."""
    native_modules: Mapping[str, str]
    """The modules with Assentry's own names, by the library's module."""
    native_names: Mapping[str, str]
    """Assentry's own names, with their module, by the library's name."""
    keywords: Mapping[str, Mapping[str, str]]
    """Assentry's own names of keywords, by the function or method and the library's keyword."""
    notes: tuple[CallNote, ...] = ()

    def owns(self, module: str) -> bool:
        """Return True if a module, or something in it, belongs to the library."""
        return module == self.module or module.startswith(f"{self.module}.")

    def skin_of(self, module: str) -> str | None:
        """Return the module here that has the names of a module of the library."""
        parts = module.split(".")
        for end in range(len(parts), 0, -1):
            found = self.skins.get(".".join(parts[:end]))
            if found is not None:
                return ".".join([found, *parts[end:]])
        return None

    def native_of(self, module: str, name: str) -> tuple[str, str] | None:
        """Return the module and the name that Assentry itself has for a name of the library; None if it has none."""
        own = self.native_modules.get(module)
        if own is not None:
            return (own, name) if hasattr(_module(own), name) else None
        found = self.native_names.get(name)
        return None if found is None else (found.rpartition(".")[0], found.rpartition(".")[2])

    def accepts(self, module: str, name: str, keywords: Iterable[str]) -> bool:
        """Return True if Assentry's own callable takes these keywords of the library's, or nothing is known of it."""
        found = self.native_of(module, name)
        if found is None:
            return True
        known = _keywords(*found)
        renamed = self.keywords.get(name, {})
        return known is None or all(renamed.get(each, each) in known for each in keywords)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - there are few libraries, and they live as long as the process
    def missing(self, qualified: str) -> str | None:
        """Return a sentence if something of the library is not here; None if it is."""
        parts, value = qualified.split("."), None
        for end in range(1, len(parts) + 1):
            here = self.skin_of(".".join(parts[:end]))
            if here is None:
                continue
            try:
                value = _module(here)
                continue
            except UsageError as error:
                return str(error)
            except ModuleNotFoundError as error:
                if error.name != here:
                    return None  # it is there, and needs something that is not installed
            try:
                getattr(value, parts[end - 1])
            except UsageError as error:
                return str(error)
            except AttributeError:
                return f"{'.'.join(parts[:end])} is not in Assentry. See {self.guide}."
            return None
        return None if value is not None else f"Assentry has nothing for {qualified}. See {self.guide}."

    def knows(self, qualified: str) -> bool:
        """Return True if a text is the path of something that the library has, here or not."""
        says = self.missing(qualified)
        return says is None or not says.startswith(f"{qualified} is not in Assentry. See ")


@functools.cache
def _module(name: str) -> Any:
    return importlib.import_module(name)


@functools.cache
def _keywords(module: str, name: str) -> frozenset[str] | None:
    """Return the keywords that a callable takes; None if that is not known, or it takes any."""
    try:
        parameters = inspect.signature(getattr(_module(module), name)).parameters
    except (AttributeError, TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return None
    return frozenset(parameters)
