"""Every page in both themes and on a phone: an audit by axe, and the contrast of what people type and press."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from assentry import Reject
from assentry.inbox import templating
from assentry.inbox.accounts import accounts_of
from assentry.inbox.templating import environment
from assentry.store import MemoryStore
from tests.inbox.desk import Desk, _open_desk, cheap_hashes, chromium, desk, drawn
from tests.inbox.office import PASSWORD, ask_everything, ask_order, ask_refund, make_app
from tests.inbox.pages import ACTS, NOT_PAGES, PAGES
from tests.inbox.support import routes_of

__all__ = ["cheap_hashes", "chromium", "desk"]  # fixtures

SCREENS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
    "dark phone": {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}},
}
BORDER = 3.0
"""The contrast that the border of a control has with what is behind it (WCAG 1.4.11)."""
PALE = """() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (text) => { const [r, g, b] = parts(text).slice(0, 3).map((each) => {
    const part = each / 255; return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const clear = (text) => parts(text).length === 4 && parts(text)[3] === 0;
  const behind = (each) => { while (each && clear(getComputedStyle(each).backgroundColor)) each = each.parentElement;
    return each ? getComputedStyle(each).backgroundColor : "rgb(255, 255, 255)"; };
  const contrast = (one, other) => { const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05); };
  const fields = "input:not([type=hidden], [type=checkbox], [type=radio]), select, textarea";
  const controls = `${fields}, button, .button, .switch`;
  return [...document.querySelectorAll(controls)].filter((each) => {
    const style = getComputedStyle(each), box = each.getBoundingClientRect();
    return box.width > 1 && style.visibility !== "hidden" && parseFloat(style.borderTopWidth) > 0 && !each.disabled;
  }).map((each) => { const border = getComputedStyle(each).borderTopColor;
    return [each.outerHTML.slice(0, 120), contrast(border, behind(each.parentElement))]; });
}"""
"""The controls of a page, each with the contrast of its border."""


def findings(page: Page) -> str:
    """Return what is wrong with a page; nothing is the empty text."""
    drawn(page)
    answer = Axe().run(page)
    pale = [f"{html}: contrast {ratio:.2f} of its border" for html, ratio in page.evaluate(PALE) if ratio < BORDER]
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")
    report = answer.generate_report() if answer.violations_count else ""
    return "\n".join([*([report] if report else []), *pale, *(["it is wider than the screen"] if wide else [])])


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_passes_an_accessibility_audit(desk: Desk, screen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = watch_templates(monkeypatch)
    made = desk.do(ask_everything(desk.store))
    desk.do(accounts_of(desk.store).add_user("ada", "admin", PASSWORD))
    people: dict[str | None, Page] = {}

    def browser_of(name: str | None) -> Page:
        if name not in people:
            people[name] = desk.browser(name, **SCREENS[screen])
        return people[name]

    found: dict[str, str] = {}
    for title, place in PAGES.items():
        page = browser_of(place.who)
        page.goto(desk.url + place.path(made))
        found[title] = findings(page)
    for title, (who, act) in ACTS.items():
        page = browser_of(who)
        act(desk, page, made)
        found[title] = findings(page)
    wrong = [f"{title}: {text}" for title, text in found.items() if text]
    print(*wrong, sep="\n")
    assert not wrong
    assert whole_templates() - rendered == set()


@pytest.fixture
def slow_desk(chromium: Browser, tmp_path: Path, cheap_hashes: None) -> Iterator[Desk]:
    """A desk where decisions can be undone for as long as an audit may take."""
    yield from _open_desk(chromium, tmp_path, 60)


@pytest.mark.parametrize("screen", SCREENS)
def test_what_the_script_shows_passes_an_accessibility_audit(slow_desk: Desk, screen: str) -> None:
    slow_desk.clock.behind = 7200
    late = slow_desk.do(ask_refund(slow_desk.store))
    slow_desk.clock.behind = 0
    order = slow_desk.do(ask_order(slow_desk.store))
    page = slow_desk.browser(**SCREENS[screen])
    slow_desk.see(page, late)
    expect(page.get_by_text("this cannot be approved any more").first).to_be_visible()
    assert findings(page) == ""
    page.goto(f"{slow_desk.url}/questions")
    page.locator(".tick input, input[name=id]").last.check(force=True)
    expect(page.get_by_text("1 selected").first).to_be_visible()
    assert findings(page) == ""
    slow_desk.see(page, order)
    expect(page.locator("#live")).not_to_have_attribute("hidden", "")  # a phone has no room for it
    drawn(page)
    page.locator("footer button[value=approve], footer .go").first.click()
    expect(page.locator(".held .undo")).to_be_visible()
    assert findings(page) == ""
    page.locator(".held .undo").click()
    expect(page.locator("#toast")).to_be_visible()
    assert findings(page) == ""


def test_nothing_is_squeezed_cut_or_out_of_sight(desk: Desk) -> None:
    made = desk.do(ask_everything(desk.store))
    stop = desk.do(desk.store.stop("Till", by="otto", why="It pays twice, whatever it is told."))
    desk.do(desk.store.lift(stop.id, by="otto"))
    desk.do(desk.store.decide(made["refund"].id, Reject("No."), by="otto", digest=made["refund"].digest))
    page = desk.browser()
    page.goto(f"{desk.url}/stops")
    assert width_of(page, ".end-of .t") > 500
    desk.see(page, made["place_order"], "/edit")
    assert width_of(page, "[id='v:/to/street']") == width_of(page, "[id='v:/to/city']") > 300
    page.goto(f"{desk.url}/audit")
    assert page.locator("tbody td:nth-child(2)").first.evaluate("each => each.clientWidth") >= 84
    phone = desk.browser(**SCREENS["phone"])
    for link in phone.locator(".top nav a").all():
        expect(link).to_be_in_viewport(ratio=1)


def test_a_row_with_many_marks_shows_its_time(desk: Desk) -> None:
    question = desk.do(ask_refund(desk.store))
    desk.see(desk.browser("vera"), question)
    page = desk.browser()
    expect(page.locator(".row .tag")).to_have_count(3)
    ends = "(row, inner) => inner.getBoundingClientRect().right <= row.getBoundingClientRect().right"
    assert page.locator(".row").evaluate(f"row => ({ends})(row, row.querySelector('time'))")


def width_of(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box
    return box["width"]


def whole_templates() -> set[str]:
    """Return the names of the templates that are pages, not parts of one."""
    loader = environment().loader
    assert loader is not None
    names = environment().list_templates()
    sources = {name: loader.get_source(environment(), name)[0] for name in names}
    return {name.removesuffix(".html") for name, source in sources.items() if "{% extends" in source} - {"step"}


def watch_templates(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set that gets the name of every template that a page is made from."""
    seen: set[str] = set()
    real: Callable[..., Any] = templating.Environment.get_template

    def get_template(self: Any, name: Any, *args: Any, **more: Any) -> Any:
        seen.add(str(getattr(name, "name", name)).removesuffix(".html"))
        return real(self, name, *args, **more)

    monkeypatch.setattr(templating.Environment, "get_template", get_template)
    return seen


def test_no_page_is_left_out() -> None:
    """A new page belongs into `tests/inbox/pages.py`."""
    routes = {
        route.path
        for route in routes_of(make_app(MemoryStore()))
        if "GET" in route.methods and not route.include_in_schema
    }
    looked_at = {place.route for place in PAGES.values()} | NOT_PAGES.keys()
    assert routes - looked_at == set()
    assert looked_at - routes == {""}
