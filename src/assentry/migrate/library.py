"""A library that programs come from: the table of what its modules, names and keywords are called here.

A row that needs a person has the sentence for them. How a program is read and rewritten does not belong here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
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
    modules: tuple[str, ...]
    """The names that programs import, the main one first."""
    distributions: Mapping[str, str]
    """The names that are installed, each with what takes its place."""
    guide: str
    skins: Mapping[str, str]
    """The modules that have the library's own names here, by the library's module."""
    native_modules: Mapping[str, str] = field(default_factory=dict)
    """The modules with Assentry's own names, by the library's module."""
    native_names: Mapping[str, str] = field(default_factory=dict)
    """Assentry's own names, with their module, by the library's name."""
    keywords: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Assentry's own names of keywords, by the function or method and the library's keyword."""
    notes: tuple[CallNote, ...] = ()

    def owns(self, module: str) -> bool:
        """Return True if a module, or something in it, belongs to the library."""
        return is_within_any(module, self.modules)

    def skin_of(self, module: str) -> str | None:
        """Return the module here that has the names of a module of the library."""
        parts = module.split(".")
        for end in range(len(parts), 0, -1):
            found = self.skins.get(".".join(parts[:end]))
            if found is not None:
                return ".".join([found, *parts[end:]])
        return None

    def for_project(self, texts: Iterable[str]) -> Library:
        """Return the table for a project with these programs."""
        return self

    def for_program(self, used: Collection[str]) -> Library:
        """Return the table for a program that uses these paths of the library."""
        return self

    def target(self, module: str, name: str) -> tuple[str, str]:
        """Return the module and the name that a name of the library has without `native`."""
        return self.skin_of(module) or module, name

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

    def missing(self, qualified: str) -> str | None:
        """Return a sentence if something of the library is not here; None if it is."""
        return self._missing(qualified)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - there are few libraries, and they live as long as the process
    def _missing(self, qualified: str) -> str | None:
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

    def missing_name(self, module: str, name: str) -> str | None:
        """Return a sentence if a name that is imported from a module is not here; None if it is."""
        return self.missing(f"{module}.{name}")

    def renamed_text(self, text: str, loads: bool) -> str | None:
        """Return what a text that names something of the library has to be here; None if it names nothing.

        Args:
            text: A text that begins like a module of the library.
            loads: True if the text is given to a function that imports.
        """
        says = None if loads else self.missing(text)
        unknown = says is not None and says.startswith(f"{text} is not in Assentry. See ")
        return None if unknown else self.skin_of(text)

    def call_note(self, module: str, name: str, keywords: Iterable[str]) -> str | None:
        """Return a sentence about keywords that the skin's callable does not take; None if it takes them."""
        return None


@dataclass(frozen=True, eq=False)
class FlatLibrary(Library):
    """The table of a library whose names are in one module here. A name that is not there stays where it is."""

    here: str = ""
    """The module with the names."""
    own: frozenset[str] = frozenset()
    """Assentry's own names in it."""
    taken: frozenset[str] = frozenset()
    """The library's own names that it offers."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """The reason that a name is not here, by the name."""
    nothing_of: Mapping[str, str] = field(default_factory=dict)
    """The modules of which nothing is here, each with the reason."""
    rest_stays: tuple[str, ...] = ()
    """Modules whose other names work as they are."""
    keeps: Mapping[str, str] = field(default_factory=dict)
    """The paths of names that need other objects of the library beside them, each with the reason."""
    moves_anyway: tuple[str, ...] = ()
    """The modules whose names move even beside those."""
    objects: str = ""
    """A pattern of imports of objects that take only the library's own classes."""
    taken_by_objects: tuple[str, ...] = ()
    """The modules of those classes."""

    def for_project(self, texts: Iterable[str]) -> Library:
        """Return the table for a project with these programs: a smaller one if they use the library's objects."""
        if not self.objects or not any(re.search(self.objects, text, re.MULTILINE) for text in texts):
            return self
        kept = self.taken_by_objects
        return replace(self, skins={each: skin for each, skin in self.skins.items() if not is_within_any(each, kept)})

    def for_program(self, used: Collection[str]) -> Library:
        """Return the table for a program that uses these paths: a smaller one beside names that keep the others."""
        if not any(each in used for each in self.keeps):
            return self
        skins = {module: skin for module, skin in self.skins.items() if is_within_any(module, self.moves_anyway)}
        return replace(self, skins=skins, nothing_of={})

    def skin_of(self, module: str) -> str | None:
        """Return the module here that has the names of a module of the library."""
        return self.here if is_within_any(module, self.skins) else None

    def is_module(self, path: str) -> bool:
        """Return True if a path is a module of the table, or leads to one."""
        keeping = (each.rpartition(".")[0] for each in self.keeps)
        return any(is_within(each, path) for each in (*self.skins, *self.nothing_of, *keeping))

    def moves(self, module: str, name: str) -> bool:
        """Return True if a name of a module is here."""
        known = name in self.own or name in self.taken
        return known and self.skin_of(module) is not None and self.reason_of(f"{module}.{name}") is None

    def reason_of(self, path: str) -> str | None:
        """Return the reason that nothing of a module is here; None if something may be."""
        return next((why for each, why in self.nothing_of.items() if is_within(path, each)), None)

    def target(self, module: str, name: str) -> tuple[str, str]:
        """Return the module and the name that a name of the library has."""
        return (self.here if self.moves(module, name) else module), name

    def missing_name(self, module: str, name: str) -> str | None:
        """Return a sentence if a name is not here and a person has to look at it."""
        why = self.keeps.get(f"{module}.{name}") or self.reason_of(f"{module}.{name}")
        if why is None:
            if self.moves(module, name) or self.skin_of(module) is None or self.is_module(f"{module}.{name}"):
                return None
            why = self.absent.get(name)
        if why is not None:
            what = name if name[0].isupper() or name in self.absent else f"{module}.{name}"
            return f"{what} is not in Assentry. {why}. See {self.guide}."
        if is_within_any(module, self.rest_stays):
            return None
        return f"{module}.{name} is not in Assentry. See {self.guide}."

    def missing(self, qualified: str) -> str | None:
        """Return a sentence if the path of a name ends with one that is not here."""
        module, _, name = qualified.rpartition(".")
        return self.missing_name(module, name) if module and self.is_module(module) else None

    def renamed_text(self, text: str, loads: bool) -> str | None:
        """Return what a text that names something of the library has to be here; None if that stays."""
        if text in self.skins:
            return self.here
        parts = text.split(".")
        for end in range(1, len(parts)):
            if self.moves(".".join(parts[:end]), parts[end]):
                return ".".join([self.here, *parts[end:]])
        return None

    def call_note(self, module: str, name: str, keywords: Iterable[str]) -> str | None:
        """Return a sentence about keywords that Assentry's own callable does not take; None if it takes them."""
        known = _keywords(self.here, name) if self.moves(module, name) and name in self.own else None
        others = [] if known is None else [f"{each}=" for each in keywords if each not in known]
        return f"{name} takes no {', '.join(others)} here. See {self.guide}." if others else None


def is_within(path: str, module: str) -> bool:
    """Return True if a path is a module, or something in it."""
    return path == module or path.startswith(f"{module}.")


def is_within_any(path: str, modules: Iterable[str]) -> bool:
    """Return True if a path is one of these modules, or something in one."""
    return any(is_within(path, each) for each in modules)


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
