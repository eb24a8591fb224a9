"""What a rule lets pass, and what bash makes of it: whatever bash runs was judged, word for word.

Lines are drawn, read by `parse_command`, and run by real bash, which finds only stubs that write down how they were
called. A line that is read must run nothing that was not read, whatever else is in it.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from assentry import ShellActionRequest, UnclearCommand, allow_commands, parse_command
from tests.draws import examples
from tests.tools.shell_stubs import Stubs, is_judged

ALLOWED = ["ls", "git", "echo", "grep", "cat", "cd", "true"]
OTHERS = ["rm", "evil", "eval", "exec", "sudo", "env", "xargs", "sh", "printf", "find"]
RULE = allow_commands("ls *", "git status", "git log *", "echo *", "grep * *.py", "cat", "true")

NOISE = [
    *" \t\n;&|<>()\"'\\$`#!{}[]*?~=,-:%^@+/.012a\r\v\f\b\x7f\u00a0\u3000\u2028\ufeffé",
    *(
        "&&",
        "||",
        "|&",
        ";;",
        ";&",
        "&>",
        ">&",
        "<&",
        ">>",
        "<<",
        "<<<",
        "<(",
        ">(",
        "((",
        "))",
        "$(",
        "$((",
        "${",
        "$[",
    ),
    *(
        "\\\n",
        "\r\n",
        "\\\r\n",
        " \\\n",
        "\n#",
        " #",
        "$'",
        '$"',
        "$x",
        "${x}",
        '"$x"',
        "$@",
        "$(evil)",
        "`evil`",
        "{a,b}",
    ),
    *(
        "if ",
        " then ",
        " fi",
        "while ",
        " do ",
        " done",
        "for x in ",
        "case x in ",
        " esac",
        "function ",
        "! ",
        "{ ",
        " }",
    ),
    *(
        "time ",
        "coproc ",
        "select ",
        "[[ ",
        " ]]",
        "f() ",
        "evil",
        " evil ",
        ";evil",
        "\nevil",
        "x=1 ",
        "PATH=. ",
        "2>&1",
    ),
    *(
        ">/dev/null",
        "2>",
        ">x",
        "<x",
        "EOF",
        "<<EOF\n",
        "\nEOF\n",
        "'a b'",
        '"a b"',
        "r''m",
        'e"v"il',
        "\\evil",
        "$'evil'",
    ),
]
name = st.sampled_from(ALLOWED * 3 + OTHERS)
word = st.one_of(
    st.sampled_from(
        ["a", "-l", "status", "log", "x.py", "a=b", "2", "one/two", "if", "then", "done", "in", "{", "!", "''"]
    ),
    st.sampled_from(
        ["'a b'", '"a b"', '"a $x"', "$x", "${x}", "*", "~", "a\\ b", "$(ls)", '"$(git log)"', "'", '"', "\\"]
    ),
    st.text(st.sampled_from(NOISE).filter(lambda each: len(each) == 1), max_size=4).map(lambda text: f"'{text}'"),
    st.text(st.sampled_from(NOISE).filter(lambda each: len(each) == 1), max_size=4).map(lambda text: f'"{text}"'),
    st.sampled_from(NOISE),
)
blank = st.sampled_from([" ", " ", " ", "  ", "\t", " \\\n "])
simple = st.tuples(name, st.lists(st.tuples(blank, word).map("".join), max_size=3)).map(
    lambda it: it[0] + "".join(it[1])
)
joint = st.sampled_from([" && ", " || ", " | ", "; ", "\n", " & ", "&&", "|", ";", "&", " |& ", " # c\n", " &&\n"])


def grouped(line: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Lines made of lines."""
    return st.one_of(
        st.tuples(line, joint, line).map("".join),
        line.map(lambda it: f"({it})"),
        line.map(lambda it: f"{{ {it}; }}"),
        line.map(lambda it: f"! {it}"),
        line.map(lambda it: f"echo $({it})"),
        line.map(lambda it: f'echo "$({it})"'),
        st.tuples(line, line).map(lambda it: f"if {it[0]}; then {it[1]}; fi"),
        st.tuples(line, line).map(lambda it: f"while {it[0]}\ndo {it[1]}\ndone"),
        st.tuples(line, st.sampled_from(NOISE)).map("".join),
        st.tuples(line, st.sampled_from([" 2>&1", " >/dev/null", " > x", "2>y", " &", ";"])).map("".join),
    )


tidy = st.recursive(simple, grouped, max_leaves=5)
soup = st.lists(st.one_of(st.sampled_from(NOISE), name, word, st.just(" ")), max_size=12).map("".join)


@st.composite
def disturbed(draw: st.DrawFn, lines: st.SearchStrategy[str]) -> str:
    """A line with something strange in it."""
    line = draw(lines)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.sampled_from(NOISE)) + line[at + draw(st.integers(0, 1)) :]
    return line


lines = st.one_of(tidy, disturbed(tidy), soup)

usual = st.sampled_from(
    [
        "ls",
        "ls -l 'a b'",
        "git status",
        "git log -3",
        "echo $x",
        'echo "$x" a\\ b',
        "grep a x.py",
        "cat",
        "true",
        "ls *",
    ]
)
calm = st.recursive(usual, grouped, max_leaves=4)
passing = st.one_of(calm, disturbed(calm), disturbed(usual))
"""Lines that are close to what the rule lets pass."""


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(tmp_path_factory.mktemp("stubs"), ALLOWED + OTHERS)


@given(lines)
@example("ls\nrm")
@example("ls >& -evil")
@example(">& --")
@example("ls \\\n -l")
@example("ls $(echo a) # rm")
@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
def test_bash_runs_nothing_but_what_was_read(stubs: Stubs, line: str) -> None:
    try:
        commands = parse_command(line)
    except UnclearCommand:
        return
    for call in stubs.run(line):
        assert any(is_judged(call, command.argv) for command in commands), (call, commands)


@given(st.lists(st.one_of(passing, passing, lines), min_size=1, max_size=2))
@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_a_rule_lets_pass_runs_only_allowed_commands(stubs: Stubs, lines: list[str]) -> None:
    action = ShellActionRequest(lines)
    if RULE(None, action, "call_1"):
        return
    commands = action.parsed()
    before = sorted(path.name for path in Path(stubs.cwd).iterdir())
    for line in lines:
        for name, *words in stubs.run(line):
            assert any(is_judged((name, *words), command.argv) for command in commands)
            assert name in ("ls", "echo", "true", "git", "grep", "cat")
            assert name != "git" or words == ["status"] or words[:1] == ["log"]
            assert name != "cat" or words == []
            assert name != "grep" or (words[-1].endswith(".py") and not any(each.startswith("-") for each in words))
    assert sorted(path.name for path in Path(stubs.cwd).iterdir()) == before, "a file was written"
