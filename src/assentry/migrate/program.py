"""One program, read and rewritten by the table of a library. Files do not belong here.

Imports change, and with `native` the names and keywords that come of them. Everything else stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import libcst as cst
from libcst.metadata import (
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedName,
    QualifiedNameProvider,
    QualifiedNameSource,
)

from .library import FlatLibrary, Library

LOADERS = ("__import__", "find_spec", "import_module", "importorskip", "patch", "setattr")
"""Functions that take the path of a module as text."""

Small: TypeAlias = cst.BaseSmallStatement


class Remark(NamedTuple):
    """Something that a person has to look at."""

    line: int
    says: str
    only: Literal["skin", "native"] | None = None
    """The names for which it holds, if not for both: those of the skin, or Assentry's own."""


class Batch(NamedTuple):
    """The knowledge that programs share which are rewritten together."""

    elsewhere: frozenset[str] = frozenset()
    """Names that programs import from each other."""
    stays: frozenset[str] = frozenset()
    """Names of the library that stay on the skin, since a program uses what Assentry's own do not have."""


class Program:
    """A program that was parsed."""

    def __init__(self, source: str, library: Library) -> None:
        self.wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self.reader = self._read(library)
        self.library = library.for_program(self.reader.used)
        if self.library is not library:
            self.reader = self._read(self.library)

    def _read(self, library: Library) -> _Reader:
        reader = _Reader(library)
        self.wrapper.visit(reader)
        return reader

    @property
    def code(self) -> str:
        """The program as it was read."""
        return self.wrapper.module.code

    @property
    def paths(self) -> list[tuple[str, str]]:
        """The library's modules that are imported, each with a name that is imported from it, or none."""
        return self.reader.paths

    def remarks(self, *, native: bool) -> list[Remark]:
        """Return the places that a person has to look at, in order."""
        other = "skin" if native else "native"
        return sorted((each for each in self.reader.remarks if each.only != other), key=lambda each: each[:2])

    def rewritten(self, *, native: bool, batch: Batch) -> str:
        """Return the program with the names that it has here."""
        if isinstance(self.library, FlatLibrary):
            return self.wrapper.visit(_FlatWriter(self.library, self.reader, native, batch)).code
        return self.wrapper.visit(_Writer(self.library, self.reader, native, batch)).code


def batch_of(programs: Sequence[Program]) -> Batch:
    """Return what the programs know of each other."""
    elsewhere = {name for program in programs for name in program.reader.elsewhere}
    stays = {name for program in programs for name in program.reader.unfit}
    return Batch(frozenset(elsewhere), frozenset(stays))


class _Reader(cst.CSTVisitor):
    """Finds what a program imports, and what a person has to look at."""

    METADATA_DEPENDENCIES = (PositionProvider, QualifiedNameProvider, ParentNodeProvider)

    def __init__(self, library: Library) -> None:
        super().__init__()
        self.library = library
        self.imported: dict[str, str] = {}
        """The library's names that the program has under their own name, with their module."""
        self.paths: list[tuple[str, str]] = []
        """The library's modules that are imported, each with a name that is imported from it, or none."""
        self.used: set[str] = set()
        """The paths of all that is imported from the library, and used of its modules."""
        self.elsewhere: set[str] = set()
        self.unfit: set[str] = set()
        self.uses: dict[str, list[tuple[cst.Name, bool]]] = {}
        """The places of each name that is used, and True if it is surely the one that was imported."""
        self.words: set[str] = set()
        """The words in texts of the program."""
        self.remarks: set[Remark] = set()
        self.exports = False
        """True if the program says what it exports."""
        self.modules: list[tuple[cst.ImportAlias, str]] = []
        """The imports of modules, each with the module's name in the program."""
        self.plain: set[str] = set()
        """The names in the program of modules that are imported under their whole path."""
        self.module_names: dict[str, dict[cst.CSTNode, str]] = {}
        """The names that move, by the place that uses them through a module, by the module's name in the program."""
        self.kept: set[str] = set()
        """The modules' names in the program of which something else is used."""

    def remark(self, node: cst.CSTNode, says: str, only: Literal["skin", "native"] | None = None) -> None:
        self.remarks.add(Remark(self.get_metadata(PositionProvider, node).start.line, says, only))

    # -- imports -----------------------------------------------------------------------------------

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            name = dotted(alias.name)
            if self.library.owns(name):
                self.paths.append((name, ""))
                self._say(alias, self.library.missing(name))
                self.modules.append((alias, alias.evaluated_alias or name.split(".")[0]))
                if alias.asname is None:
                    self.plain.add(name.split(".")[0])

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        module = "" if node.relative or node.module is None else dotted(node.module)
        if not self.library.owns(module):
            if not isinstance(node.names, cst.ImportStar):
                self.elsewhere |= {dotted(alias.name) for alias in node.names}
            return
        if isinstance(node.names, cst.ImportStar):
            self.paths.append((module, ""))
            here = self.library.skin_of(module)
            if here is not None:
                self.remark(node, f"Say which names are imported: {here} looks each up when asked.")
            return
        for alias in node.names:
            name = dotted(alias.name)
            self.paths.append((module, name))
            self.used.add(f"{module}.{name}")
            native = self.library.native_of(module, name) is not None
            self._say(alias, self.library.missing_name(module, name), "skin" if native else None)
            if isinstance(self.library, FlatLibrary) and self.library.is_module(f"{module}.{name}"):
                self.modules.append((alias, alias.evaluated_alias or name))
            elif alias.asname is None:
                self.imported[name] = module

    def _say(self, node: cst.CSTNode, says: str | None, only: Literal["skin", "native"] | None = None) -> None:
        """Make a remark, if there is something to say."""
        if says is not None:
            self.remark(node, says, only)

    # -- uses --------------------------------------------------------------------------------------

    def _found(self, node: cst.CSTNode) -> list[QualifiedName]:
        given = self.get_metadata(QualifiedNameProvider, node, set())
        return sorted(given() if callable(given) else given, key=lambda each: each.name)

    def _qualified(self, node: cst.CSTNode) -> str | None:
        """Return the path of something that was imported from the library; None for everything else."""
        found = self._found(node)
        if len(found) != 1 or found[0].source is not QualifiedNameSource.IMPORT:
            return None
        return found[0].name if self.library.owns(found[0].name) else None

    def visit_Attribute(self, node: cst.Attribute) -> None:
        qualified = self._qualified(node)
        if qualified is not None and not self._is_imported(node):
            self.used.add(qualified)
            self._say(node, self.library.missing(qualified))

    def _is_imported(self, node: cst.CSTNode) -> bool:
        """Return True if a node is part of an import."""
        parent: cst.CSTNode | None = node
        while isinstance(parent, cst.Attribute | cst.Name | cst.ImportAlias | cst.AsName):
            parent = self.get_metadata(ParentNodeProvider, parent, None)
        return isinstance(parent, cst.Import | cst.ImportFrom)

    def visit_Name(self, node: cst.Name) -> None:
        parent = self.get_metadata(ParentNodeProvider, node, None)
        named = isinstance(parent, cst.Attribute) and parent.attr is node
        keyword = isinstance(parent, cst.Arg) and parent.keyword is node
        if named or keyword or self._is_imported(node):
            return
        if node.value == "__all__":
            self.exports = True
        qualified = self._qualified(node)
        self.uses.setdefault(node.value, []).append((node, qualified is not None))
        self._use_module(node, qualified)

    @property
    def moved(self) -> set[str]:
        """The names in the program of modules that can be replaced: all that is used of them moves."""
        return set(self.module_names) - self.kept

    def leave_Module(self, original_node: cst.Module) -> None:
        for alias, name in self.modules:
            if name in self.module_names and name in self.kept:
                self.remark(alias, f"{name} stays: not all that is used of it is here; import the names that are.")

    def _use_module(self, node: cst.Name, qualified: str | None) -> None:
        """Note what is used of a module whose names move to one module here."""
        place: cst.CSTNode = node
        while isinstance(self.library, FlatLibrary) and qualified and self.library.is_module(qualified):
            parent = self.get_metadata(ParentNodeProvider, place, None)
            if not isinstance(parent, cst.Attribute) or parent.value is not place:
                break
            name = parent.attr.value
            if self.library.moves(qualified, name):
                self.module_names.setdefault(node.value, {})[parent] = name
                return
            place, qualified = parent, f"{qualified}.{name}"
        self.kept.add(node.value)

    def visit_Call(self, node: cst.Call) -> None:
        qualified = self._qualified(node.func)
        if qualified is None:
            return
        keywords = [each.keyword.value for each in node.args if each.keyword is not None]
        module, _, name = qualified.rpartition(".")
        if not self.library.accepts(module, name, keywords):
            self.unfit.add(name)
        self._say(node, self.library.call_note(module, name, keywords))
        for note in self.library.notes:
            if note.fits(qualified, keywords):
                self.remark(node, note.says, "native" if note.native else None)

    # -- texts -------------------------------------------------------------------------------------

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        value = node.evaluated_value
        text = value if isinstance(value, str) else ""
        parents = list(self._parents(node))
        if isinstance(parents[0], cst.Expr):
            return  # a docstring
        self.words |= set(re.findall(r"\w+", text))
        if any(isinstance(each, cst.Annotation) for each in parents):
            self.kept |= set(re.findall(r"\w+", text))
            return
        if not self.library.owns(text):
            return
        loads = isinstance(parents[0], cst.Arg) and _called(parents[1]) in LOADERS
        path = re.fullmatch(r"\w+(\.\w+)+", text) is not None
        here = self.library.renamed_text(text, loads) if loads or path else None
        if here is not None:
            self.remark(node, f"This text names {text}; write {here} if it is imported by it.")

    def visit_FormattedStringText(self, node: cst.FormattedStringText) -> None:
        self.words |= set(re.findall(r"\w+", node.value))

    def _parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        parent = self.get_metadata(ParentNodeProvider, node, None)
        while parent is not None:
            yield parent
            parent = self.get_metadata(ParentNodeProvider, parent, None)


class _Writer(cst.CSTTransformer):
    """Rewrites imports, and with `native` the names and keywords that come of them."""

    def __init__(self, library: Library, reader: _Reader, native: bool, batch: Batch) -> None:
        super().__init__()
        self.library = library
        self.native = native
        self.batch = batch
        self.renamed: dict[str, str] = {}
        """Names that become others wherever they are used."""
        self.places: set[cst.Name] = set()
        if native:
            self._choose_names(reader)

    def _target(self, module: str, name: str) -> tuple[str, str]:
        """Return the module and the name that a name of the library has here."""
        skin = self.library.target(module, name)
        return skin if not self.native or name in self.batch.stays else self.library.native_of(module, name) or skin

    def _choose_names(self, reader: _Reader) -> None:
        """Choose the names that can be replaced in the whole program: nobody else may know or have them."""
        for old, module in reader.imported.items():
            new = self._target(module, old)[1]
            known = old in self.batch.elsewhere or old in reader.words or reader.exports
            if new == old or known or new in reader.uses or new in reader.imported:
                continue
            uses = reader.uses.get(old, [])
            if all(sure for _, sure in uses):
                self.renamed[old] = new
                self.places |= {node for node, _ in uses}

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if original_node in self.places:
            return updated_node.with_changes(value=self.renamed[original_node.value])
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        renamed = self.library.keywords.get(_called(original_node) or "", {})
        if not self.native or not renamed or self.batch.stays & {"Agent", "RunState"}:
            return updated_node
        return updated_node.with_changes(args=[_renamed(each, renamed) for each in updated_node.args])

    # -- imports -----------------------------------------------------------------------------------

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        made = self._statements(updated_node.body)
        if made is None:
            return updated_node
        if len(updated_node.body) > 1 or len(made) == 1:
            return updated_node.with_changes(body=_joined(made))
        lines = [cst.SimpleStatementLine([each]) for each in made]
        lines[0] = lines[0].with_changes(leading_lines=updated_node.leading_lines)
        lines[-1] = lines[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel(lines)

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        made = self._statements(updated_node.body)
        return updated_node if made is None else updated_node.with_changes(body=_joined(made))

    def _statements(self, body: Sequence[Small]) -> list[Small] | None:
        """Return the statements with their imports replaced; None if there is nothing to replace."""
        made: list[Small] = []
        for each in body:
            found = None
            if isinstance(each, cst.Import):
                found = self._import(each)
            elif isinstance(each, cst.ImportFrom) and not each.relative and each.module is not None:
                found = self._import_from(each, dotted(each.module))
            made += [each] if found is None else found
        return None if len(made) == len(body) and all(a is b for a, b in zip(made, body, strict=True)) else made

    def _import(self, node: cst.Import) -> list[Small] | None:
        own = [alias for alias in node.names if self.library.owns(dotted(alias.name))]
        if not own:
            return None
        others = [alias for alias in node.names if alias not in own]
        made: list[Small] = [node.with_changes(names=_without_last_comma(others))] if others else []
        for alias in own:
            made += self._module_import(alias)
        return made

    def _module_import(self, alias: cst.ImportAlias) -> list[Small]:
        """Return the statements that give a program a module under the name that it had."""
        name = dotted(alias.name)
        here = self.library.skin_of(name) or name
        plain = alias.with_changes(name=path(here), comma=cst.MaybeSentinel.DEFAULT)
        if alias.asname is not None:
            return [cst.Import([plain])]
        parent, _, last = (self.library.skin_of(self.library.modules[0]) or "").rpartition(".")
        bound: Small = cst.ImportFrom(path(parent), [cst.ImportAlias(cst.Name(last))])
        return [bound] if name in self.library.modules else [cst.Import([plain]), bound]

    def _import_from(self, node: cst.ImportFrom, module: str) -> list[Small] | None:
        if not self.library.owns(module):
            return None
        if isinstance(node.names, cst.ImportStar):
            return [node.with_changes(module=path(self.library.skin_of(module) or module))]
        groups: dict[str, list[cst.ImportAlias]] = {}
        for alias in node.names:
            where, name = self._place(module, alias)
            groups.setdefault(where, []).append(self._named(alias, name))
        if list(groups) == [module]:
            return None
        end = node.names[-1].comma
        return [
            node.with_changes(module=path(where), names=_with_end(names, end, node.lpar is not None))
            for where, names in sorted(groups.items())
        ]

    def _place(self, module: str, alias: cst.ImportAlias) -> tuple[str, str]:
        """Return the module and the name from which an imported name comes here."""
        return self._target(module, dotted(alias.name))

    def _named(self, alias: cst.ImportAlias, new: str) -> cst.ImportAlias:
        old = dotted(alias.name)
        if new == old:
            return alias
        if alias.asname is None and old not in self.renamed:
            alias = alias.with_changes(asname=cst.AsName(cst.Name(old)))
        return alias.with_changes(name=cst.Name(new))


class _FlatWriter(_Writer):
    """Rewrites imports for a library whose names are in one module here."""

    def __init__(self, library: FlatLibrary, reader: _Reader, native: bool, batch: Batch) -> None:
        super().__init__(library, reader, native, batch)
        self.here = library.here
        self.is_module = library.is_module
        self.moved = reader.moved
        self.attributes: dict[cst.CSTNode, cst.Attribute] = {}
        """The uses of names through modules, as they are written here."""
        for bound in self.moved:
            base = library.here if bound in reader.plain else bound
            for place, name in reader.module_names[bound].items():
                self.attributes[place] = cst.Attribute(path(base), cst.Name(name))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        new = self.attributes.get(original_node)
        return updated_node if new is None else updated_node.with_changes(value=new.value, attr=new.attr)

    def _import(self, node: cst.Import) -> list[Small] | None:
        names: dict[str, cst.ImportAlias] = {}
        for alias in node.names:
            name = dotted(alias.name)
            bound = alias.evaluated_alias or name.split(".")[0]
            moves = self.library.owns(name) and self.is_module(name) and bound in self.moved
            new = alias.with_changes(name=path(self.here)) if moves else alias
            names.setdefault(f"{dotted(new.name)} {new.evaluated_alias}", new)
        made = list(names.values())
        same = len(made) == len(node.names) and all(a is b for a, b in zip(made, node.names, strict=True))
        return None if same else [node.with_changes(names=_without_last_comma(made))]

    def _import_from(self, node: cst.ImportFrom, module: str) -> list[Small] | None:
        return None if isinstance(node.names, cst.ImportStar) else super()._import_from(node, module)

    def _place(self, module: str, alias: cst.ImportAlias) -> tuple[str, str]:
        name = dotted(alias.name)
        if not self.is_module(f"{module}.{name}"):
            return super()._place(module, alias)
        parent, _, last = self.here.rpartition(".")
        return (parent, last) if (alias.evaluated_alias or name) in self.moved else (module, name)


def dotted(node: cst.CSTNode) -> str:
    """Return the path that an import names."""
    if isinstance(node, cst.Attribute):
        return f"{dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def path(name: str) -> cst.Name | cst.Attribute:
    """Return a dotted path as a node."""
    first, *rest = name.split(".")
    made: cst.Name | cst.Attribute = cst.Name(first)
    for each in rest:
        made = cst.Attribute(made, cst.Name(each))
    return made


def _called(node: cst.CSTNode) -> str | None:
    """Return the last part of the name that a call calls."""
    func = node.func if isinstance(node, cst.Call) else None
    return func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else None


def _renamed(arg: cst.Arg, names: Mapping[str, str]) -> cst.Arg:
    if arg.keyword is None or arg.keyword.value not in names:
        return arg
    return arg.with_changes(keyword=arg.keyword.with_changes(value=names[arg.keyword.value]))


def _joined(statements: Sequence[Small]) -> list[Small]:
    """Return statements for one line, with a semicolon between them."""
    between = cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))
    made = [each.with_changes(semicolon=between) for each in statements[:-1]]
    return [*made, statements[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]


def _without_last_comma(names: Sequence[cst.ImportAlias]) -> list[cst.ImportAlias]:
    return [*names[:-1], names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]


def _with_end(
    names: list[cst.ImportAlias], end: cst.Comma | cst.MaybeSentinel, bracketed: bool
) -> list[cst.ImportAlias]:
    """Return names of an import that end as the whole list did; a comment after the last one stays."""
    last = names[-1]
    if bracketed and _has_comment(last):
        return names
    return [*names[:-1], last.with_changes(comma=end)]


def _has_comment(alias: cst.ImportAlias) -> bool:
    after = alias.comma.whitespace_after if isinstance(alias.comma, cst.Comma) else None
    return isinstance(after, cst.ParenthesizedWhitespace) and after.first_line.comment is not None
