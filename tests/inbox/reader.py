"""A browser without a script: reads pages, fills in forms and presses their buttons, in process."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin

import httpx
from fastapi import FastAPI

from tests.inbox.office import PASSWORD


class Form:
    """A form as it was served: where it goes, its values, and its buttons."""

    def __init__(self, action: str, method: str) -> None:
        self.action, self.method = action, method
        self.values: dict[str, str] = {}
        self.buttons: dict[str, tuple[str, str]] = {}


class Page(HTMLParser):
    """The forms, elements and text of a page."""

    def __init__(self, text: str, url: str) -> None:
        super().__init__()
        self.source, self.url = text, url
        self.forms: list[Form] = []
        self.ids: dict[str, Form] = {}
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._open: Form | None = None
        self._text: list[str] = []
        self._button: tuple[dict[str, str], list[str]] | None = None
        self._select: str | None = None
        self._area: tuple[str, list[str]] | None = None
        self._late: list[tuple[str, str, dict[str, str]]] = []
        self.feed(re.sub("</?mark>|<i>([0-9]+)</i>", r"\1", text))  # they are in the middle of words
        for form, label, attributes in self._late:
            if form in self.ids:
                self.ids[form].buttons[label] = (attributes.get("name", ""), attributes.get("value", ""))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        name = given.get("name", "")
        if tag == "form":
            self._open = Form(given.get("action", self.url), given.get("method", "get"))
            self.forms.append(self._open)
            if "id" in given:
                self.ids[given["id"]] = self._open
        elif tag == "input" and self._open is not None and name:
            if given.get("type") not in ("checkbox", "radio") or "checked" in given:
                self._open.values[name] = given.get("value", "on" if given.get("type") == "checkbox" else "")
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and self._open is not None:
            if "selected" in given or self._select not in self._open.values:
                self._open.values[self._select] = given.get("value", "")
        elif tag == "textarea":
            self._area = (name, [])
        elif tag == "button":
            self._button = (given, [])

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area[1].append(data)
        if self._button is not None:
            self._button[1].append(data)
        self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "select":
            self._select = None
        elif tag == "textarea" and self._area is not None:
            if self._open is not None:
                self._open.values[self._area[0]] = "".join(self._area[1]).removeprefix("\n")
            self._area = None
        elif tag == "button" and self._button is not None:
            given, words = self._button
            label = " ".join("".join(words).split())
            if "form" in given:
                self._late.append((given["form"], label, given))
            elif self._open is not None:
                self._open.buttons[label] = (given.get("name", ""), given.get("value", ""))
            self._button = None

    @property
    def text(self) -> str:
        """The words on the page."""
        return " ".join(" ".join(self._text).split())

    def links(self) -> list[str]:
        return [given["href"] for tag, given in self.tags if tag == "a" and "href" in given]

    def button(self, label: str) -> tuple[Form, tuple[str, str]]:
        for form in self.forms:
            for each, pair in form.buttons.items():
                if each == label or each.startswith(label):
                    return form, pair
        raise AssertionError(f"no button {label!r}; there are {[list(form.buttons) for form in self.forms]}")


class Reader:
    """Somebody with a browser."""

    def __init__(self, app: FastAPI, name: str | None = "ann", base: str = "") -> None:
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost", follow_redirects=True
        )
        self.name, self.base = name, base
        self.page = Page("", "")
        self.answer: httpx.Response = httpx.Response(200)

    async def __aenter__(self) -> Self:
        if self.name is not None:
            form = {"name": self.name, "password": PASSWORD}
            await self._took(await self.client.post(f"{self.base}/sign-in", data=form))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        await self.client.aclose()

    async def _took(self, answer: httpx.Response) -> Page:
        self.answer = answer
        self.page = Page(answer.text, str(answer.url))
        return self.page

    async def open(self, path: str) -> Page:
        return await self._took(await self.client.get(self.base + path))

    async def press(self, label: str, **values: str) -> Page:
        """Press a button, after the fields of its form were given these values."""
        form, (name, value) = self.page.button(label)
        assert form.method == "post"
        sent = form.values | {key.replace("__", ":"): each for key, each in values.items()}
        return await self.send(form.action, sent | ({name: value} if name else {}))

    async def fill(self, label: str, fields: dict[str, str | None]) -> Page:
        """Press a button, after fields of its form were filled in; None takes a field away, as an unticked box."""
        form, (name, value) = self.page.button(label)
        sent = {key: each for key, each in (form.values | fields).items() if each is not None}
        return await self.send(form.action, sent | ({name: value} if name else {}))

    async def send(self, action: str, fields: dict[str, str]) -> Page:
        return await self._took(await self.client.post(urljoin(self.page.url, action), data=fields))
