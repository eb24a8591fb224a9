"""Signed states: what was changed, swapped or stripped after it was signed is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from assentry import BadSignature, Runner, RunState, SigningKey, UnreadableState, UsageError
from assentry.testing import call
from tests.runtime.support import scripted, sending

KEY = SigningKey("2026-11", b"a secret of 32 random bytes, say")
OLD = SigningKey("2026-05", b"the secret that went before it..")


async def paused(to: str = "ann") -> tuple[Any, RunState[Any], list[Any]]:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": to}), "done", tools=[send])
    result = await Runner.run(agent, "go", context={"user": 7})
    return agent, result.to_state(), sent


async def test_a_signed_run_goes_on_like_any_other() -> None:
    agent, state, sent = await paused()
    state = await RunState.from_string(agent, state.to_string(key=KEY), keys=[KEY])
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, await RunState.from_json(agent, state.to_json(key=KEY), keys=[KEY]))
    assert result.final_output == "done"
    assert sent == [("ann", 1)]


async def test_the_order_of_keys_and_white_space_do_not_matter() -> None:
    agent, state, _ = await paused()
    data = state.to_json(key=KEY)
    text = json.dumps(dict(reversed(data.items())), indent=4, sort_keys=True)
    assert (await RunState.from_string(agent, text, keys=[KEY])).run_id == state.run_id


def approve(data: dict[str, Any]) -> None:
    question = data["journal"][-1]
    data["journal"].append({"fact": "approved", "call": question["call"], "by": "boss", "asked": question["id"]})


def redirect(data: dict[str, Any]) -> None:
    reply = next(fact for fact in data["journal"] if fact["fact"] == "replied")
    reply["items"][0]["arguments"] = '{"to": "eve"}'


async def test_a_signed_text_in_which_a_key_occurs_twice_is_refused_wherever_it_is() -> None:
    agent, state, sent = await paused()
    state.edit(state.get_interruptions()[0], {"to": "bob"})
    text = state.to_string(key=KEY)
    for before, after in (
        ('"args":{"copies":1,"to":"bob"}', '"args":{"copies":1,"to":"eve","to":"bob"}'),
        ('"args":{"copies":1,"to":"bob"}', '"args":{"copies":1,"t\\u006f":"eve","to":"bob"}'),
        ('"context":{"user":7}', '"context":{"user":1,"user":7}'),
        ('{"schema":1', '{"schema":1,"schema":1'),
    ):
        assert text.count(before) == 1
        for forged in (text.replace(before, after), text.replace(before, after).encode()):
            with pytest.raises(BadSignature, match="occurs twice"):
                await RunState.from_string(agent, forged, keys=[KEY])
    assert (await RunState.from_string(agent, text, keys=[KEY])).run_id == state.run_id and sent == []


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a forged approval": approve,
    "a changed argument": redirect,
    "another context": lambda data: data.update(context={"user": 1}),
    "another run's id": lambda data: data["journal"][0].update(run="run_other"),
    "a stripped signature": lambda data: data.pop("signature"),
    "an empty signature": lambda data: data.update(signature={}),
    "a signature that is none": lambda data: data.update(signature=5),
    "another code": lambda data: data["signature"].update(code="0" * 64),
    "a code that is no ASCII": lambda data: data["signature"].update(code="é"),
    "an unknown key": lambda data: data["signature"].update(key="mine"),
    "something more": lambda data: data.update(more=1),
    "an older schema": lambda data: data.update(schema=0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_what_was_changed_after_it_was_signed_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    agent, state, sent = await paused()
    data = state.to_json(key=KEY)
    change(data)
    with pytest.raises(BadSignature):
        await RunState.from_json(agent, data, keys=[KEY, OLD])
    await RunState.from_json(agent, state.to_json(key=KEY), keys=[KEY])
    assert sent == []


async def test_a_signature_of_one_run_is_none_for_another() -> None:
    agent, one, _ = await paused()
    _, other, _ = await paused()
    data = one.to_json(key=KEY) | {"signature": other.to_json(key=KEY)["signature"]}
    with pytest.raises(BadSignature):
        await RunState.from_json(agent, data, keys=[KEY])


async def test_a_run_that_was_never_signed_is_refused_where_keys_are_asked_for() -> None:
    agent, state, _ = await paused()
    with pytest.raises(BadSignature):
        await RunState.from_string(agent, state.to_string(), keys=[KEY])
    with pytest.raises(BadSignature):
        await RunState.from_string(agent, state.to_string(key=KEY), keys=[])


@pytest.mark.parametrize(
    "signature",
    [
        {"by": "boss"},
        {"key": 7},
        {"code": None},
        {"\u006bey ": "2026-11"},
    ],
)
async def test_a_signature_with_anything_else_in_it_is_refused(signature: dict[str, Any]) -> None:
    agent, state, _ = await paused()
    data = state.to_json(key=KEY)
    data["signature"] |= signature
    with pytest.raises(BadSignature, match="The signature of this saved run is not one of Assentry's: "):
        await RunState.from_json(agent, data, keys=[KEY])
    with pytest.raises(UnreadableState, match="signature"):  # also where nobody asks for keys
        await RunState.from_string(agent, json.dumps(data))


async def test_keys_can_be_changed_while_runs_wait() -> None:
    agent, state, _ = await paused()
    text = state.to_string(key=OLD)
    await RunState.from_string(agent, text, keys=[KEY, OLD])
    with pytest.raises(BadSignature, match="2026-05"):
        await RunState.from_string(agent, text, keys=[KEY])
    with pytest.raises(BadSignature):
        await RunState.from_string(agent, text, keys=[SigningKey("2026-05", KEY.secret)])


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '"x"', "{}", '{"signature": null}'])
async def test_what_is_no_saved_run_has_no_signature(text: str) -> None:
    agent, _, _ = await paused()
    with pytest.raises(UnreadableState):
        await RunState.from_string(agent, text, keys=[KEY])


def test_a_key_has_an_id_and_a_long_secret_and_never_shows_it() -> None:
    for id, secret in (("", KEY.secret), (5, KEY.secret), ("k", b"short"), ("k", "text of sixteen or more")):
        with pytest.raises(UsageError):
            SigningKey(id, secret)  # type: ignore[arg-type]
    assert "secret" not in repr(KEY)


async def test_what_is_no_key_is_a_clear_error() -> None:
    agent, state, _ = await paused()
    with pytest.raises(UsageError):
        state.to_string(key="secret")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        await RunState.from_string(agent, state.to_string(key=KEY), keys=["secret"])  # type: ignore[list-item]
