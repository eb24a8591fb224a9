"""The check of tokens, without the grammar in front of it: it must hold even if the grammar is wrong."""

import pytest

from assentry import UnclearCommand
from assentry.commands.shell_command import RESERVED
from assentry.commands.shell_tokens import STRUCTURE, Tokens

WORD, BEGIN, NUMBER, REDIRECT, COMMENT = "w", "b", "n", "r", "#"
"""How tokens are written here: `b:ls` begins a command; a token without a prefix is an operator or a reserved word."""


def read(text: str, *tokens: str, nested: bool = False) -> None:
    """Take tokens as a grammar would give them, found in the text from left to right."""
    taken, at = Tokens(text, 0, nested), 0
    for token in tokens:
        kind, _, word = token.partition(":") if token[1:2] == ":" else ("", "", token)
        start = text.index(word, at)
        at = start + len(word)
        if kind == "":
            taken.structure(start, at)
        elif kind == COMMENT:
            taken.comment(start, at)
        elif kind == NUMBER:
            taken.add("number", start, at)
        elif kind == REDIRECT:
            taken.add("redirect", start, at)
        else:
            taken.add("word", start, at, kind == BEGIN)
    taken.end(len(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("ls", ["b:ls"]),
        ("ls -l a", ["b:ls", "w:-l", "w:a"]),
        ("  ls\t-l \n", ["b:ls", "w:-l"]),
        ("ls \\\n -l", ["b:ls", "w:-l"]),
        ("ls;pwd", ["b:ls", ";", "b:pwd"]),
        ("ls && pwd|wc", ["b:ls", "&&", "b:pwd", "|", "b:wc"]),
        ("ls &&\n\n pwd", ["b:ls", "&&", "b:pwd"]),
        ("ls\npwd", ["b:ls", "b:pwd"]),
        ("(ls;pwd)&", ["(", "b:ls", ";", "b:pwd", ")", "&"]),
        ("(ls;)", ["(", "b:ls", ";", ")"]),
        ("( (ls))", ["(", "(", "b:ls", ")", ")"]),
        ("{ ls; }", ["{", "b:ls", ";", "}"]),
        ("{ ls\n}", ["{", "b:ls", "}"]),
        ("if ls; then pwd; fi;", ["if", "b:ls", ";", "then", "b:pwd", ";", "fi", ";"]),
        ("! ls", ["!", "b:ls"]),
        ("ls 2>&1 >x", ["b:ls", "n:2", "r:>&", "w:1", "r:>", "w:x"]),
        ("(ls) > x", ["(", "b:ls", ")", "r:>", "w:x"]),
        ("ls # c", ["b:ls", "#:# c"]),
        ("# c\nls", ["#:# c", "b:ls"]),
        ("ls && # c\npwd", ["b:ls", "&&", "#:# c", "b:pwd"]),
        ("ls # c\npwd", ["b:ls", "#:# c", "b:pwd"]),
    ],
)
def test_tokens_that_bash_would_find_are_taken(text: str, tokens: list[str]) -> None:
    read(text, *tokens)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # text that is no token
        ("ls x", ["b:ls"]),
        ("x ls", ["b:ls"]),
        ("ls x -l", ["b:ls", "w:-l"]),
        ("ls;", ["b:ls"]),
        ("ls\u00a0-l", ["b:ls", "w:-l"]),
        ("ls\r\n-l", ["b:ls", "w:-l"]),
        ("ls\x0b-l", ["b:ls", "w:-l"]),
        ("\ufeffls", ["b:ls"]),
        ("ls\\\n-l", ["b:ls", "w:-l"]),
        ("ls\\\n -l", ["b:ls", "w:-l"]),
        ("ls \\\n\n -l", ["b:ls", "w:-l"]),
        ("ls \\ -l", ["b:ls", "w:-l"]),
        # a line break ends a command
        ("ls\n-l", ["b:ls", "w:-l"]),
        ("ls >\nx", ["b:ls", "r:>", "w:x"]),
        ("ls\n> x", ["b:ls", "r:>", "w:x"]),
        ("ls\n2> x", ["b:ls", "n:2", "r:>", "w:x"]),
        ("ls\n&& pwd", ["b:ls", "&&", "b:pwd"]),
        # a command begins only where one is expected
        ("ls pwd", ["b:ls", "b:pwd"]),
        ("ls; pwd", ["b:ls", ";", "w:pwd"]),
        ("(ls) pwd", ["(", "b:ls", ")", "b:pwd"]),
        ("(ls) pwd", ["(", "b:ls", ")", "w:pwd"]),
        ("{ ls; } pwd", ["{", "b:ls", ";", "}", "b:pwd"]),
        ("ls > pwd x", ["b:ls", "r:>", "b:pwd", "w:x"]),
        ("ls if", ["b:ls", "if"]),
        ("ls {", ["b:ls", "{"]),
        ("ls !", ["b:ls", "!"]),
        ("ls (", ["b:ls", "("]),
        ("{ ls }", ["{", "b:ls", "}"]),
        ("if ls; then ls fi", ["if", "b:ls", ";", "then", "b:ls", "fi"]),
        ("{ (ls) }", ["{", "(", "b:ls", ")", "}"]),
        # operators
        ("; ls", [";", "b:ls"]),
        ("ls ; ; pwd", ["b:ls", ";", ";", "b:pwd"]),
        ("ls & && pwd", ["b:ls", "&", "&&", "b:pwd"]),
        ("if ; ls", ["if", ";", "b:ls"]),
        ("ls > ; pwd", ["b:ls", "r:>", ";", "b:pwd"]),
        ("ls > )", ["b:ls", "r:>", ")"]),
        ("ls >", ["b:ls", "r:>"]),
        ("ls 2", ["b:ls", "n:2"]),
        ("ls > > x", ["b:ls", "r:>", "r:>", "w:x"]),
        ("ls 2 x", ["b:ls", "n:2", "w:x"]),
        ("ls <> x", ["b:ls", "r:<>", "w:x"]),
        ("ls << x", ["b:ls", "r:<<", "w:x"]),
        ("ls >& x", ["b:ls", "r:>&", "w:x"]),
        ("ls >& --", ["b:ls", "r:>&", "w:--"]),
        ("ls <& 1-", ["b:ls", "r:<&", "w:1-"]),
        ("ls [[ x", ["b:ls", "[[", "w:x"]),
        # tokens that touch, and could be one
        ("ls-l", ["b:ls", "w:-l"]),
        ("ls;;pwd", ["b:ls", ";", ";", "b:pwd"]),
        ("ls&&pwd", ["b:ls", "&", "&", "b:pwd"]),
        ("ls&>x", ["b:ls", "&", "r:>", "w:x"]),
        ("((ls))", ["(", "(", "b:ls", ")", ")"]),
        ("(ls)pwd", ["(", "b:ls", ")", "w:pwd"]),
        ("!ls", ["!", "b:ls"]),
        ("{ls; }", ["{", "b:ls", ";", "}"]),
        ("ifls", ["if", "b:ls"]),
        ("if(ls)", ["if", "(", "b:ls", ")"]),
        ("ls 2>x", ["b:ls", "w:2", "r:>", "w:x"]),
        ("ls;(pwd)", ["b:ls", ";", "(", "b:pwd", ")"]),
        ("ls(pwd)", ["b:ls", "(", "b:pwd", ")"]),
        # comments
        ("ls#c", ["b:ls", "#:#c"]),
        ("ls;#c", ["b:ls", ";", "#:#c"]),
        ("ls # c pwd", ["b:ls", "#:# c", "w:pwd"]),
        ("ls # c ;pwd", ["b:ls", "#:# c", ";", "b:pwd"]),
        ("ls # c\\\npwd", ["b:ls", "#:# c\\", "b:pwd"]),
        ("ls \\\n# c", ["b:ls", "#:# c"]),
        ("ls # c\n-l", ["b:ls", "#:# c", "w:-l"]),
        ("ls # c\n&& pwd", ["b:ls", "#:# c", "&&", "b:pwd"]),
        ("ls // c", ["b:ls", "#:// c"]),
    ],
)
def test_tokens_that_bash_may_read_otherwise_are_unclear(text: str, tokens: list[str]) -> None:
    with pytest.raises(UnclearCommand):
        read(text, *tokens)


def test_a_comment_is_not_read_where_a_parenthesis_must_follow() -> None:
    with pytest.raises(UnclearCommand):
        read("ls # c", "b:ls", "#:# c", nested=True)


def test_tokens_out_of_order_are_unclear() -> None:
    tokens = Tokens("ls -l", 0, False)
    tokens.add("word", 0, 2, True)
    tokens.add("word", 3, 5)
    with pytest.raises(UnclearCommand):
        tokens.add("word", 0, 2)


def test_no_reserved_word_is_both_structure_and_a_name() -> None:
    words = {word for word, kind in STRUCTURE.items() if kind in ("opening", "closing")}
    assert words <= RESERVED
