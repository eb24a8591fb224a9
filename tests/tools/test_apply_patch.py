"""`ApplyPatchTool` in runs: judged, shown, asked about and applied, in both of its forms."""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from assentry import (
    Agent,
    ApplyPatchEditor,
    ApplyPatchOperation,
    ApplyPatchResult,
    ApplyPatchTool,
    Edit,
    InvalidDefinition,
    OpenAIResponsesModel,
    Preview,
    Runner,
    ToolContext,
    WorkspaceEditor,
    apply_diff,
)
from assentry.store import MemoryStore
from assentry.testing import ScriptedModel, call
from assentry.threads import HumanInTheLoopMiddleware, InMemorySaver, ToolCallRequest, create_agent
from assentry.tools.patch_editor import PatchEditor
from assentry.tools.patch_format import read_patch
from tests.models.openai_server import Item, OpenAIServer, message
from tests.models.responses_api import ResponsesAPI
from tests.runtime.support import heard, outcomes, outputs, reloaded, scripted
from tests.tools.test_patch_format import in_patch

UPDATE = in_patch("*** Update File: a.txt", "@@", "-one", "+two")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n")
    return tmp_path


def texts(root: Path) -> dict[str, str]:
    """What the files of a workspace hold."""
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def patching(root: Path, *patches: Any, **options: Any) -> Agent[Any]:
    """An agent that proposes these patches at once, and is done."""
    calls = [call("apply_patch", {"patch": patch} if isinstance(patch, str) else patch) for patch in patches]
    return scripted(calls, "done", tools=[ApplyPatchTool(WorkspaceEditor(root), **options)])


def native(call_id: str = "call_1", **operation: Any) -> Item:
    """A provider's own call of a patch."""
    item = {"type": "apply_patch_call", "id": f"apc_{call_id}", "call_id": call_id, "status": "completed"}
    return {**item, "operation": operation}


# -- asked, shown, applied -------------------------------------------------------------------------


async def test_a_patch_that_fitted_no_file_is_not_applied_to_one_that_came_later(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Delete File: notes.txt\n*** End Patch"
    tool = ApplyPatchTool(WorkspaceEditor(tmp_path))
    agent = Agent("A", tools=[tool], model=ScriptedModel([call("apply_patch", {"patch": patch}), "Done."]))
    state = (await Runner.run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    assert item.preview is not None and "notes.txt does not exist" in str(item.preview.failed)
    state.approve(item)
    (tmp_path / "notes.txt").write_text("precious")
    [again] = (await Runner.run(agent, state)).interruptions
    assert (tmp_path / "notes.txt").read_text() == "precious"
    assert again.preview is not None and again.preview.blocks


async def test_a_patch_waits_for_a_person_who_sees_its_diff(root: Path) -> None:
    agent = patching(root, UPDATE)
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert item.preview is not None
    assert item.preview.sentence == "Change a.txt"
    assert item.preview.blocks[0].text == "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-one\n+two\n"  # type: ignore[union-attr]
    assert json.loads(item.arguments) == {"patch": UPDATE}
    assert (root / "a.txt").read_text() == "one\n"
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0], by="ann")
    result = await Runner.run(agent, state)
    assert (root / "a.txt").read_text() == "two\n"
    assert json.loads(heard(agent)[-1]["output"]) == {"status": "completed", "output": "Changed a.txt."}
    assert (outcomes(result)[0].status, outcomes(result)[0].by) == ("finished", "tool")


async def test_a_patch_that_a_person_rejects_changes_nothing(root: Path) -> None:
    agent = patching(root, UPDATE)
    state = (await Runner.run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="Not today.")
    await Runner.run(agent, state)
    assert heard(agent)[-1]["output"] == "Not today."
    assert (root / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("form", ["function", "native"])
async def test_a_person_may_edit_a_patch_also_in_a_store_that_has_no_code(root: Path, form: str) -> None:
    operation = {"type": "update_file", "path": "a.txt", "diff": "@@\n-one\n+two\n"}
    first = native(**operation) if form == "native" else call("apply_patch", {"patch": UPDATE})
    agent, store = scripted([first], "done", tools=[ApplyPatchTool(WorkspaceEditor(root))]), MemoryStore()
    result = await Runner.run(agent, "go", store=store)
    [question] = (await store.questions()).items
    assert question.preview is not None
    assert json.loads(question.arguments) == {"patch": UPDATE}
    better = {"patch": UPDATE.replace("+two", "+three")}
    await store.decide(question.id, Edit(better), by="ann", digest=question.digest)
    await Runner.run(agent, await store.load(result.run_id), store=store)
    assert (root / "a.txt").read_text() == "three\n"


async def test_a_file_that_changed_since_the_preview_is_asked_about_again(root: Path) -> None:
    agent = patching(root, UPDATE)
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    (root / "a.txt").write_text("zero\none\n")
    result = await Runner.run(agent, state)
    [item] = result.interruptions
    assert "a.txt was 'sha256:" in item.reason
    assert item.preview is not None
    assert " zero\n-one\n+two\n" in item.preview.blocks[0].text  # type: ignore[union-attr]
    assert (root / "a.txt").read_text() == "zero\none\n"
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert (root / "a.txt").read_text() == "zero\ntwo\n"


@pytest.mark.parametrize("how", ["gone", "other", "link"])
async def test_a_patch_that_does_not_fit_any_more_is_asked_about_again_and_then_fails(root: Path, how: str) -> None:
    agent = patching(root, UPDATE)
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    (root / "a.txt").unlink()
    if how == "other":
        (root / "a.txt").write_text("three\n")
    elif how == "link":
        (root / "b.txt").write_text("one\n")
        (root / "a.txt").symlink_to("b.txt")
    result = await Runner.run(agent, state)
    [item] = result.interruptions
    assert item.preview is not None
    assert item.preview.failed is not None
    assert "WorkspaceEditor.preview" in item.preview.failed
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    assert outcomes(result)[0].status == "failed"
    assert heard(agent)[-1]["output"].endswith("no file was changed.")
    assert texts(root) in (
        {}, {"a.txt": "three\n"}, {"a.txt": "one\n", "b.txt": "one\n"}
    )  # fmt: skip


async def test_an_approval_for_one_workspace_is_not_one_for_another(root: Path, tmp_path: Path) -> None:
    state = (await Runner.run(patching(root, UPDATE), "go")).to_state()
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("one\n")
    elsewhere = patching(other, UPDATE)
    state = await reloaded(elsewhere, state)
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(elsewhere, state)
    assert "workspace/" in result.interruptions[0].reason
    assert (other / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"patch": 5},
        {"patch": ""},
        {"patch": in_patch("*** Delete File: ../b")},
        {"patch": in_patch("*** Delete File: /etc/passwd")},
        {"patch": UPDATE, "more": 1},
        {"patch": UPDATE, "type": "delete_file", "path": "a.txt"},
        {"type": "delete_file"},
        {"type": "delete_file", "path": ""},
        {"type": "delete_file", "path": 5},
        {"type": "delete_file", "path": "a.txt", "force": True},
        {"type": "delete_file", "path": "a.txt", "diff": "-one"},
        {"type": "delete_file", "path": "a.txt\n*** Delete File: b.txt"},
        {"type": "delete_file", "path": "a.txt\r"},
        {"type": "rename_file", "path": "a.txt"},
        {"type": "create_file", "path": "b.txt", "diff": "x"},
        {"type": "create_file", "path": "b.txt", "diff": "+x\n*** Delete File: a.txt"},
        {"type": "update_file", "path": "a.txt"},
        {"type": "update_file", "path": "a.txt", "diff": "-one\n*** End Patch\n*** Begin Patch"},
        {"type": "update_file", "path": "a.txt", "move_to": "../b"},
        {"type": "update_file", "path": "a.txt", "move_to": "b", "diff": 7},
    ],
)
async def test_arguments_that_are_no_patch_never_run_and_cannot_be_approved(root: Path, arguments: Any) -> None:
    result = await Runner.run(patching(root, arguments), "go")
    assert result.interruptions[0].allowed == ("edit", "reject", "respond")
    agent = patching(root, arguments, needs_approval=False)
    await Runner.run(agent, "go")
    assert "the arguments do not fit the tool" in heard(agent)[-1]["output"]
    assert texts(root) == {"a.txt": "one\n"}


async def test_the_model_is_told_why_a_patch_was_refused(root: Path) -> None:
    agent = patching(root, in_patch("*** Update File: a.txt", "-three"), needs_approval=False)
    result = await Runner.run(agent, "go")
    assert heard(agent)[-1]["output"] == (
        "a.txt: section 1 of the diff: the file does not have the line 'three' there; no file was changed."
    )
    assert outcomes(result)[0].status == "failed"


async def test_patches_of_one_turn_are_applied_one_after_another(root: Path) -> None:
    patches = [in_patch(f"*** Add File: d/{n}", f"+{n}") for n in range(20)]
    await Runner.run(patching(root, *patches, needs_approval=False), "go")
    assert texts(root / "d") == {str(n): f"{n}\n" for n in range(20)}


# -- rules -----------------------------------------------------------------------------------------


async def test_a_rule_gets_each_operation_and_one_true_asks_about_the_whole_patch(root: Path) -> None:
    seen: list[tuple[str, str, str]] = []

    async def deletes(ctx: Any, operation: ApplyPatchOperation, call_id: str) -> bool:
        assert operation.ctx_wrapper is ctx
        seen.append((operation.type, operation.path, call_id))
        return operation.type == "delete_file"

    new = in_patch("*** Add File: b", "+x")
    both = in_patch("*** Add File: c", "+x", "*** Delete File: a.txt", "*** Add File: d", "+x")
    result = await Runner.run(patching(root, new, both, needs_approval=deletes), "go")
    [item] = result.interruptions
    assert "deletes asks for approval" in item.reason
    operations = [("create_file", "b"), ("create_file", "c"), ("delete_file", "a.txt"), ("create_file", "d")]
    assert [each[:2] for each in seen] == operations  # the last may be the one of high risk
    assert texts(root) == {"a.txt": "one\n", "b": "x\n"}


async def test_a_rule_that_fails_or_gives_no_bool_asks(root: Path) -> None:
    for rule in (lambda ctx, operation, call_id: 1 / 0, lambda ctx, operation, call_id: "no"):
        result = await Runner.run(patching(root, UPDATE, needs_approval=rule), "go")
        assert len(result.interruptions) == 1


def test_the_fingerprint_has_the_name_and_version_of_the_users_rule(root: Path) -> None:
    def rule(ctx: Any, operation: ApplyPatchOperation, call_id: str) -> bool:
        return True

    def other(ctx: Any, operation: ApplyPatchOperation, call_id: str) -> bool:
        return True

    editor = WorkspaceEditor(root)
    one = ApplyPatchTool(editor, needs_approval=rule)
    assert one.fingerprint == ApplyPatchTool(editor, needs_approval=functools.partial(rule)).fingerprint
    assert one.fingerprint != ApplyPatchTool(editor, needs_approval=other).fingerprint
    assert one.fingerprint == dataclasses.replace(one, editor=editor).fingerprint
    rule.version = "2"  # type: ignore[attr-defined]
    assert one.fingerprint != ApplyPatchTool(editor, needs_approval=rule).fingerprint


async def test_code_may_decide_in_a_persons_place(root: Path) -> None:
    def decide(ctx: Any, item: Any) -> dict[str, Any]:
        return {"approve": item.preview.sentence == "Change a.txt", "reason": "Only a.txt."}

    agent = patching(root, UPDATE, in_patch("*** Add File: b", "+x"), on_approval=decide)
    result = await Runner.run(agent, "go")
    assert [outcome.status for outcome in outcomes(result)] == ["finished", "rejected"]
    assert texts(root) == {"a.txt": "two\n"}


# -- the native form -------------------------------------------------------------------------------

MOVED: Item = {"type": "update_file", "path": "a.txt", "move_to": "b"}
NATIVE: list[tuple[Item, str, dict[str, str]]] = [
    ({"type": "create_file", "path": "b/c", "diff": "+x\n+y"}, "Create b/c", {"a.txt": "one\n", "b/c": "x\ny\n"}),
    ({"type": "update_file", "path": "a.txt", "diff": "@@\n-one\n+two\n"}, "Change a.txt", {"a.txt": "two\n"}),
    ({**MOVED, "diff": "-one\n+two"}, "Move a.txt to b and change it", {"b": "two\n"}),
    ({**MOVED, "diff": ""}, "Move a.txt to b", {"b": "one\n"}),
    ({"type": "delete_file", "path": "a.txt"}, "Delete a.txt", {}),
    ({"type": "delete_file", "path": "a.txt", "diff": None, "move_to": None}, "Delete a.txt", {}),
]


@pytest.mark.parametrize(("operation", "sentence", "after"), NATIVE)
async def test_a_native_operation_is_the_same_patch_as_that_of_a_function(
    root: Path, operation: Item, sentence: str, after: dict[str, str]
) -> None:
    agent = scripted([native(**operation)], "done", tools=[ApplyPatchTool(WorkspaceEditor(root))])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert item.preview is not None
    assert item.preview.sentence == sentence
    assert json.loads(item.arguments).keys() == {"patch"}
    assert texts(root) == {"a.txt": "one\n"}
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    assert texts(root) == after
    assert heard(agent)[-1]["type"] == "apply_patch_call_output"
    assert heard(agent)[-1]["status"] == "completed"
    same = ApplyPatchTool(WorkspaceEditor(root))
    assert same.canonical(operation) == json.loads(item.arguments) == same.canonical(json.loads(item.arguments))


async def test_over_the_wire_a_provider_gets_the_output_of_its_own_call(root: Path) -> None:
    patch = {"type": "update_file", "path": "a.txt", "diff": "@@\n-one\n+two\n"}
    bad = {"type": "update_file", "path": "a.txt", "diff": "@@\n-one\n+three\n"}
    replies = [
        [native("call_1", **patch)],
        [native("call_2", **bad)],
        [native("call_3", type="delete_file", path="a.txt")],
        [message("Done.")],
    ]
    api = ResponsesAPI(replies)
    with OpenAIServer() as server:
        server.script(api, api, api, api)
        async with AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=0) as client:
            model = OpenAIResponsesModel("gpt-5.2", client)
            agent = Agent[Any](name="Editor", tools=[ApplyPatchTool(WorkspaceEditor(root))], model=model)
            result = await Runner.run(agent, "go")
            for verdict in ("approve", "approve", "reject"):
                state = await reloaded(agent, result.to_state())
                getattr(state, verdict)(state.get_interruptions()[0])
                result = await Runner.run(agent, state)
        assert result.final_output == "Done."
        assert server.bodies[0]["tools"] == [{"type": "apply_patch"}]
        told = [item for item in server.bodies[-1]["input"] if item.get("type") == "apply_patch_call_output"]
    assert [(item["call_id"], item["status"]) for item in told] == [
        ("call_1", "completed"), ("call_2", "failed"), ("call_3", "failed")
    ]  # fmt: skip
    assert [item["output"] for item in told] == [
        "Changed a.txt.",
        "a.txt: section 1 of the diff: the file does not have the line 'one' there; no file was changed.",
        "The call was not approved and did not run.",
    ]
    assert texts(root) == {"a.txt": "two\n"}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Done by hand.", "Done by hand."),
        ({"output": 5}, '{"output":5}'),
        ({"status": "completed"}, None),
        (None, "null"),
    ],
)
async def test_a_persons_answer_to_a_native_call_is_its_output_and_the_run_can_be_read(
    root: Path, answer: Any, text: str | None
) -> None:
    operation = {"type": "delete_file", "path": "a.txt"}
    agent = scripted([native(**operation)], "done", tools=[ApplyPatchTool(WorkspaceEditor(root))])
    state = (await Runner.run(agent, "go")).to_state()
    state.respond(state.get_interruptions()[0], answer)
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.final_output == "done"
    told = heard(agent)[-1]
    assert (told["status"], told["output"]) == ("completed", text or json.dumps(answer, separators=(",", ":")))
    assert texts(root) == {"a.txt": "one\n"}


async def test_middleware_can_ask_about_patches(root: Path) -> None:
    seen: list[Any] = []

    def long(request: ToolCallRequest) -> bool:
        seen.append(request.tool_call["args"])
        return len(request.tool_call["args"]["patch"]) > 10_000

    def deletes(ctx: Any, operation: ApplyPatchOperation, call_id: str) -> bool:
        return operation.type == "delete_file"

    options: Any = {"allowed_decisions": ["approve", "reject"], "when": long}
    delete = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"
    agent = create_agent(
        ScriptedModel([call("apply_patch", {"patch": UPDATE}), call("apply_patch", {"patch": delete})]),
        [ApplyPatchTool(WorkspaceEditor(root), needs_approval=deletes)],
        middleware=[HumanInTheLoopMiddleware({"apply_patch": options})],
        checkpointer=InMemorySaver(),
    )
    given = await agent.ainvoke({"messages": "go"}, {"configurable": {"thread_id": "1"}})
    assert texts(root) == {"a.txt": "two\n"}
    assert given["__interrupt__"][0].value["action_requests"][0]["args"] == {"patch": delete}
    assert seen == [{"patch": UPDATE}]


async def test_damaged_native_items_never_run(root: Path) -> None:
    for operation in (None, "x", [], {}, {"type": "delete_file"}):
        item = {**native(), "operation": operation}
        agent = scripted([item], "done", tools=[ApplyPatchTool(WorkspaceEditor(root), needs_approval=False)])
        await Runner.run(agent, "go")
        assert heard(agent)[-1]["status"] == "failed"
        assert texts(root) == {"a.txt": "one\n"}


# -- editors of your own ---------------------------------------------------------------------------


class Memory:
    """An editor whose files are in memory."""

    def __init__(self, **files: str) -> None:
        self.files = files

    def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        self.files[operation.path] = apply_diff("", operation.diff or "", "create")
        return ApplyPatchResult("completed", f"made {operation.path}")

    async def update_file(self, operation: ApplyPatchOperation) -> str:
        assert operation.ctx_wrapper is not None
        self.files[operation.path] = apply_diff(self.files[operation.path], operation.diff or "")
        return "changed it"

    def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult | None:
        if operation.path not in self.files:
            return ApplyPatchResult("failed", f"no {operation.path}")
        del self.files[operation.path]
        return None


async def test_an_editor_of_your_own_gets_one_operation_after_another(root: Path) -> None:
    editor = Memory(a="one\n", b="x\n")
    assert isinstance(editor, ApplyPatchEditor)
    patch = in_patch("*** Add File: /c", "+new", "*** Update File: a", "-one", "+two", "*** Delete File: b")
    agent = scripted(call("apply_patch", {"patch": patch}), "done", tools=[ApplyPatchTool(editor)])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert item.preview is not None
    assert item.preview.sentence == "Create /c; change a; delete b"
    assert [block.text for block in item.preview.blocks] == ["+new\n", "-one\n+two\n", ""]  # type: ignore[union-attr]
    state = result.to_state()
    state.approve(item)
    result = await Runner.run(agent, state)
    assert editor.files == {"a": "two\n", "/c": "new\n"}
    assert outputs(result)[0].output == {"status": "completed", "output": "made /c\nchanged it\nDeleted b."}


async def test_a_failure_in_an_editor_of_your_own_ends_the_patch_and_says_what_was_done() -> None:
    editor = Memory(a="one\n")
    patch = in_patch("*** Add File: c", "+new", "*** Delete File: z", "*** Delete File: a")
    tool = ApplyPatchTool(editor, needs_approval=False)
    agent = scripted(call("apply_patch", {"patch": patch}), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    assert outputs(result)[0].output == "z: no z Before that: made c"
    assert outcomes(result)[0].status == "failed"
    assert editor.files == {"a": "one\n", "c": "new\n"}


@pytest.mark.parametrize("given", [5, ApplyPatchResult("odd", None), {"status": "completed"}])  # type: ignore[arg-type]
async def test_an_editor_that_gives_something_else_has_failed(given: Any) -> None:
    class Odd(Memory):
        def create_file(self, operation: ApplyPatchOperation) -> Any:
            return given

    tool = ApplyPatchTool(Odd(), needs_approval=False)
    agent = scripted(call("apply_patch", {"patch": in_patch("*** Add File: c", "+x")}), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    assert "what became of c is not known" in outputs(result)[0].output
    assert outcomes(result)[0].status == "failed"


class Whole(PatchEditor):
    """An editor that takes whole patches, and does nothing."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def check(self, operations: Any) -> None:
        pass

    def preview(self, operations: Any) -> Preview:
        return Preview("Do nothing", preconditions={"version": 1})

    async def patch(self, operations: Any) -> str:
        self.got.append("nothing")
        return "done"


class Comparing(Whole):
    """One that is given what was shown."""

    async def patch(self, operations: Any, *, shown: Any = None) -> str:
        self.got.append(shown)
        return "done"


class TakingAll(Whole):
    """One that takes whatever it is given."""

    async def patch(self, operations: Any, **options: Any) -> str:
        self.got.append(options["shown"])
        return "done"


@pytest.mark.parametrize(
    ("kind", "got"), [(Whole, "nothing"), (Comparing, {"version": 1}), (TakingAll, {"version": 1})]
)
async def test_an_editor_that_takes_what_was_shown_gets_it_and_others_work_as_before(
    monkeypatch: pytest.MonkeyPatch, kind: type[Whole], got: Any
) -> None:
    monkeypatch.setattr(ToolContext, "preconditions", {"version": 1}, raising=False)
    editor = kind()
    agent = scripted(call("apply_patch", {"patch": UPDATE}), "done", tools=[ApplyPatchTool(editor)])
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    assert outputs(result)[0].output == {"status": "completed", "output": "done"}
    assert editor.got == [got]


async def test_a_workspace_compares_the_files_with_what_was_shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    real = WorkspaceEditor.apply

    def apply(self: WorkspaceEditor, operations: Any, *, shown: Any = None) -> str:
        seen.append(shown)
        return real(self, operations, shown=shown)

    monkeypatch.setattr(WorkspaceEditor, "apply", apply)
    shown = WorkspaceEditor(root).preview(read_patch(UPDATE)).preconditions
    monkeypatch.setattr(ToolContext, "preconditions", shown, raising=False)
    agent = patching(root, UPDATE)
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert seen == [shown]
    assert texts(root) == {"a.txt": "two\n"}


def test_only_an_editor_that_can_tell_has_a_probe_and_yours_comes_first(root: Path) -> None:
    def mine(ctx: Any, args: Any) -> None:
        pass

    tool = ApplyPatchTool(WorkspaceEditor(root))
    assert tool.probe is not None
    assert ApplyPatchTool(Memory()).probe is None
    assert ApplyPatchTool(Whole()).probe is None
    assert ApplyPatchTool(WorkspaceEditor(root), probe=mine).probe is mine
    assert dataclasses.replace(tool, editor=Memory()).probe is None
    other = dataclasses.replace(tool, editor=WorkspaceEditor(root))
    assert other.probe is not None and other.probe is not tool.probe


WRONG: dict[str, Callable[[], Any]] = {
    "no editor": lambda: ApplyPatchTool(None),  # type: ignore[arg-type]
    "a path": lambda: ApplyPatchTool("."),  # type: ignore[arg-type]
    "a class": lambda: ApplyPatchTool(Memory),  # type: ignore[arg-type]
    "a rule of text": lambda: ApplyPatchTool(Memory(), needs_approval="always"),  # type: ignore[arg-type]
    "a timeout": lambda: ApplyPatchTool(Memory(), timeout=5),
    "an approver of text": lambda: ApplyPatchTool(Memory(), on_approval="yes"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_definitions_are_refused(what: str) -> None:
    with pytest.raises(InvalidDefinition):
        WRONG[what]()


def test_a_copy_with_another_editor_previews_with_that_one(root: Path, tmp_path: Path) -> None:
    one = ApplyPatchTool(WorkspaceEditor(root))
    other = tmp_path / "other"
    other.mkdir()
    two = dataclasses.replace(one, editor=WorkspaceEditor(other))
    assert two.needs_approval is True
    assert two.preview is not None
    shown: Any = two.preview(None, {"patch": in_patch("*** Add File: a.txt", "+x")})  # type: ignore[arg-type]
    assert shown.preconditions["workspace/"] == str(other.resolve())


async def test_models_are_offered_one_argument_and_told_the_format(root: Path) -> None:
    agent = Agent[Any](name="Editor", tools=[ApplyPatchTool(WorkspaceEditor(root))], model=ScriptedModel(["hi"]))
    await Runner.run(agent, "go")
    model: Any = agent.model
    [spec] = model.requests[0].tools
    assert (spec.name, list(spec.parameters["properties"]), spec.native) == ("apply_patch", ["patch"], "apply_patch")
    assert "*** Begin Patch" in spec.description
