"""The stories of the examples."""

from collections.abc import Callable
from subprocess import CompletedProcess

Run = Callable[..., CompletedProcess[str]]


def lines(ended: CompletedProcess[str]) -> list[str]:
    """What a program that ended well has shown."""
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


QUERY = "DELETE FROM records WHERE year < 2024"
ASKED = [
    "Tool execution pending approval",
    "",
    "Tool: execute_sql",
    f"Args: { ({'query': QUERY}) }",
]
READ = "read_data (success): records has 500 rows, the oldest of 2019."


def test_a_call_runs_after_yes(run_example: Run) -> None:
    assert lines(run_example("threads_approve", "y\n")) == [
        *ASKED,
        f"Run it? [y/N] {READ}",
        f"execute_sql (success): 412 rows: {QUERY}",
        "I am done with the records.",
    ]


def test_anything_else_is_no(run_example: Run) -> None:
    assert lines(run_example("threads_approve", "perhaps\n"))[-2:] == [
        "execute_sql (error): User rejected the tool call for `execute_sql` with reason: Not today.",
        "I am done with the records.",
    ]


def test_a_call_is_edited(run_example: Run) -> None:
    proposed, refused, told, _, _, ran, end = lines(run_example("threads_edit"))
    assert proposed == "proposed: {'to': 'everybody@example.com', 'subject': 'We moved', 'copies': 500}"
    assert refused.startswith("refused: ") and "copies" in refused
    assert ran == "Sent 2 to friends@example.com: We moved"
    assert told.startswith("ran: Note: a person changed this tool call before it ran.")
    assert end == "The mail is out."


def test_a_call_is_rejected_and_another_one_is_approved(run_example: Run) -> None:
    assert lines(run_example("threads_reject")) == [
        "now proposed: archive_file",
        "delete_file (error): User rejected the tool call for `delete_file` with reason: We must keep reports for ten "
        "years. Archive it instead.",
        "archive_file (success): report-2019.pdf is in the archive.",
        "The report is in the archive.",
    ]


def test_several_calls_are_decided_at_once(run_example: Run) -> None:
    assert lines(run_example("threads_several")) == [
        "waits: order {'article': 'lamp', 'pieces': 2}",
        "waits: order {'article': 'chair', 'pieces': 400}",
        "waits: order {'article': 'yacht', 'pieces': 1}",
        "refused: There must be 3 decisions, one for each of: order, order, order, in this order; got 2.",
        "success: Ordered: 2 lamp.",
        "success: lamp: none left.",
        "success: Ordered: 4 chair.",
        "error: User rejected the tool call for `order` with reason: No boats.",
        "That is what I could get.",
    ]


def test_a_stream_asks_and_goes_on(run_example: Run) -> None:
    assert lines(run_example("threads_streaming")) == [
        "The tests are green, so I deploy it.",
        "[you are asked] {'version': '2.1'}",
        "[you say yes]",
        "... machine one",
        "... machine two",
        "[it gave] 2.1 is live.",
        "Version 2.1 is live. Have a nice day.",
    ]


def test_a_thread_outlives_its_process(run_example: Run) -> None:
    assert lines(run_example("threads_durable")) == ["The transfer waits in threads.db; start again to approve it."]
    assert lines(run_example("threads_durable")) == [
        "waiting since the last start: {'to': 'Ann', 'euros': 20}",
        "4 messages; the last one: Done: 20 euros went to Ann.",
    ]
    assert lines(run_example("threads_durable")) == ["6 messages; the last one: We have talked before."]
