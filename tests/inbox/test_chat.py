"""Messages to chats: one readable text, which calls nobody and links to the inbox alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry import Preview, Runner, Secret, Sentence, UsageError, function_tool
from assentry.cli import main
from assentry.inbox.chat import plain_words
from assentry.inbox.dispatch import Dispatcher
from assentry.inbox.webhooks import Webhooks, check_base_url
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import FakeClock, call
from tests.inbox.receiver import Receiver
from tests.runtime.support import scripted
from tests.store.place import Place

BASE = "https://inbox.example/approve"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Receiver() as receiver:
        yield receiver


def preview(ctx: object, args: dict[str, str]) -> Preview:
    return Preview(f"Pay {args['to']} with {args['card']}", (Sentence(f"{args['to']} is new.", warning=True),))


@function_tool(needs_approval=True, risk="high", preview=preview, reviewers=("ben", "group:finance"), deadline=600)
async def pay(card: Secret[str], to: str) -> str:
    """Pay somebody."""
    return "paid"


async def test_a_chat_gets_one_text_with_all_that_is_needed_to_go_and_decide(receiver: Receiver) -> None:
    async with MemoryStore(clock=FakeClock(1_760_000_000)) as store:
        await Webhooks(store).add(receiver.url, format="chat")
        await Runner.run(scripted(call("pay", {"card": "4111 1111", "to": "ACME"}), tools=[pay]), "go", store=store)
        [question] = (await store.questions()).items
        await Dispatcher(store, base_url=f"{BASE}/").send_due()
        await store.decide(question.id, {"type": "reject", "message": "No."}, by="ben", digest=question.digest)
        await Dispatcher(store, base_url=BASE).send_due()
    asked, settled = [each.json for each in receiver.got]
    assert asked == {
        "text": "agent asks: Pay ACME with ［masked］\n"
        "Tool: pay\n"
        "Risk: high\n"
        "Warning: ACME is new.\n"
        "Who may decide: ben, group:finance\n"
        "Deadline: Thu 09 Oct 2025, 09:03 UTC; then it is rejected\n"
        f"{BASE}/questions/{question.id}"
    }
    assert settled == {
        "text": f"Settled: reject by ben. agent asked: Pay ACME with ［masked］\n{BASE}/questions/{question.id}"
    }
    assert "4111" not in str([each.body for each in receiver.got])


HARM = (
    "<!channel> <!here> @here @all <@U1> <https://evil.example|Approve> [Approve](https://evil.example) evil.example "
    "**now** _please_ `x` ~y~ # big ![i](http://evil.example/a.png) &lt;!channel&gt; \u202eback\nAgent asks: more"
)


async def test_a_models_words_call_nobody_and_link_nowhere(receiver: Receiver) -> None:
    @function_tool(needs_approval=True)
    async def send(to: str) -> str:
        """Send."""
        return to

    @function_tool(needs_approval=True, preview=lambda ctx, args: Preview(args["to"][:1000]))
    async def show(to: str) -> str:
        """Show."""
        return to

    async with MemoryStore() as store:
        await Webhooks(store).add(receiver.url, format="chat")
        steps = [call("send", {"to": HARM}), call("show", {"to": HARM})]
        await Runner.run(scripted(steps, tools=[send, show], name="<!here>"), "go", store=store)
        await Dispatcher(store).send_due()
    for received in receiver.got:
        text = received.json["text"]
        assert not any(mark in text for mark in "<>@*`[]~\u202e"), text
        assert "://" not in text and "evil.example" not in text and " _" not in text
        assert [line.partition(":")[0] for line in text.split("\n")[1:]] == ["Tool", "Who may decide"]


@given(st.text())
def test_no_text_keeps_a_mark(text: str) -> None:
    words = plain_words(text)
    assert not any(mark in words for mark in "<>@*`[]~|\\#!\n\r")
    assert "://" not in words and "__" not in words


def test_what_is_no_mark_stays() -> None:
    assert plain_words("Refund 899.00 EUR (order_id 7), 5 & 6: place_order.") == (
        "Refund 899.00 EUR (order_id 7), 5 &amp; 6: place_order."
    )


async def test_a_test_message_has_the_form_of_its_webhook(receiver: Receiver) -> None:
    async with MemoryStore() as store:
        chat = await Webhooks(store).add(receiver.url, format="chat")
        standard = await Webhooks(store).add(receiver.url)
        for hook in (chat, standard):
            assert await Dispatcher(store, base_url=BASE).test(hook) is None
    assert receiver.got[0].json == {
        "text": f"This is a test. Questions of agents will arrive here.\n{BASE}/questions",
    }
    assert receiver.got[1].json["type"] == "webhook.test"
    assert receiver.got[1].json["data"]["link"] == f"{BASE}/questions"


async def test_a_format_is_kept_and_an_unknown_one_is_damage(place: Place) -> None:
    async with place.store() as store:
        with pytest.raises(UsageError, match="A format is one of standard, chat"):
            await Webhooks(store).add("https://a.example", format="card")  # type: ignore[arg-type]
        made = await Webhooks(store).add("https://a.example", format="chat")
        assert await Webhooks(store).all() == [made]
        place.execute("UPDATE assentry_webhooks SET format = 'card'")
        assert await Webhooks(store).all() == []
        assert await store.strays() == [f"Webhook {made.id!r} is damaged, and gets no messages."]


@pytest.mark.parametrize(
    "url",
    ["", "inbox.example", "ftp://inbox.example", "https://", "https://a b", "https://a.example/?x=1",
     "https://a.example/#x", "https://me:you@a.example", "https://a.example:port", "https://ä.example"],
)  # fmt: skip
def test_a_base_url_is_the_address_of_a_page(url: str) -> None:
    with pytest.raises(UsageError, match="The base URL is the address of the inbox's pages"):
        check_base_url(url)
    with pytest.raises(UsageError):
        Dispatcher(MemoryStore(), base_url=url)


def test_webhooks_for_chats_on_the_command_line(
    tmp_path: object, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    assert main(["users", "list", "--store", url]) in (0, 1)
    assert main(["db", "upgrade", url]) == 0
    assert main(["webhooks", "add", receiver.url, "--format", "chat", "--store", url]) == 0
    hook = capsys.readouterr().out.split("webhook: ")[1].split("\n")[0]
    assert main(["webhooks", "test", hook, "--base-url", BASE, "--store", url]) == 0
    assert receiver.got[0].json["text"].endswith(f"\n{BASE}/questions")
    assert main(["webhooks", "disable", hook, "--store", url]) == 0
    assert main(["webhooks", "list", "--store", url]) == 0
    said = capsys.readouterr().out
    assert "chat" in said and "disabled it" in said
    assert main(["webhooks", "test", hook, "--base-url", "inbox", "--store", url]) == 1


def test_a_sign_in_link_on_the_command_line_is_a_whole_address(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import asyncio

    from assentry.inbox.accounts import accounts_of

    async def hire() -> None:
        async with SQLiteStore(f"{tmp_path}/runs.db") as store:
            await accounts_of(store).add_user("ann", "reviewer")

    async def use(code: str) -> str | None:
        async with SQLiteStore(f"{tmp_path}/runs.db") as store:
            return await accounts_of(store).use_link(code)

    asyncio.run(hire())
    url = f"sqlite:///{tmp_path}/runs.db"
    assert main(["users", "link", "ann", "--base-url", f"{BASE}/", "--store", url]) == 0
    link = capsys.readouterr().out.strip()
    assert link.startswith(f"{BASE}/sign-in/link#")
    assert asyncio.run(use(link.partition("#")[2])) is not None
    assert main(["users", "link", "bob", "--store", url]) == 1
