"""Rules for programs outside, from a file: which rule fits a call, and which files are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assentry.approval.rule_file import MOST_RULES, CallRule, RuleFile
from assentry.errors import UsageError

FILE = """
[[rule]]
name = "no disks"
tool = "*disk*"
verdict = "deny"
reason = "Disks are not wiped from here."

[[rule]]
name = "small"
caller = "billing-*"
source = "invoices"
tool = "pay"
server = "bank"
verdict = "allow"
where = {amount = {at_most = 50}}

[[rule]]
name = "large"
tool = "pay"
verdict = "ask"
reviewers = ["ann", "group:bank"]
deadline = 3600
risk = "high"
owner = false
"""


def found(
    tool: str = "pay",
    args: dict[str, Any] | None = None,
    *,
    caller: str = "billing-bot",
    source: str = "invoices",
    server: str | None = "bank",
    text: str = FILE,
) -> str | None:
    rule = RuleFile.parse(text).rule_for(source, tool, server, args, caller)
    return None if rule is None else rule.name


def test_the_first_rule_that_fits_decides() -> None:
    assert found(args={"amount": 50}) == "small"
    assert found(args={"amount": 51}) == "large"
    assert found("wipe_disk", {}) == "no disks"
    assert found("read", {}) is None  # a person is asked


@pytest.mark.parametrize(
    "other", [{"caller": "eve"}, {"caller": ""}, {"source": "other"}, {"server": "other"}, {"server": None}]
)
def test_a_rule_is_about_those_whom_it_names(other: dict[str, Any]) -> None:
    assert found(args={"amount": 1}, **other) == "large"


def test_a_rule_that_names_definitions_is_about_no_other() -> None:
    text = '[[rule]]\nname = "known"\nverdict = "allow"\ndefinitions = ["v1", "v2"]'
    rules = RuleFile.parse(text)
    for definition, fits in (("v1", True), ("v2", True), ("v3", False), (None, False)):
        assert (rules.rule_for("bot", "act", None, {}, "bot", definition) is not None) == fits


def test_globs_do_not_ignore_case() -> None:
    assert found("PAY", {"amount": 1}) is None


def test_a_rule_that_looks_at_arguments_fits_none_that_cannot_be_read() -> None:
    assert found(args=None) == "large"
    strict = '[[rule]]\nname = "a"\nverdict = "allow"\nschema = {type = "object"}'
    assert found(args=None, text=strict) is None
    assert found(args={}, text=strict) == "a"


def test_a_rule_that_forbids_forbids_what_cannot_be_read_too() -> None:
    text = '[[rule]]\nname = "no"\ntool = "pay"\nverdict = "deny"\nwhere = {amount = {above = 50}}'
    assert found(args=None, text=text) == "no"
    assert found(args={"amount": 50}, text=text) is None
    assert found(args={"amount": 51}, text=text) == "no"


@pytest.mark.parametrize("verdict", ["ask", "deny"])
def test_what_a_rule_holds_back_is_not_allowed_in_another_spelling(verdict: str) -> None:
    rules = RuleFile.parse(
        f'[[rule]]\nname = "paths"\nverdict = "{verdict}"\nwhere = {{path = {{under = "/etc"}}}}\n'
        f'[[rule]]\nname = "amounts"\nverdict = "{verdict}"\nwhere = {{amount = {{above = 50}}}}\n'
        '[[rule]]\nname = "rest"\nverdict = "allow"'
    )

    def verdict_on(**args: Any) -> str:
        rule = rules.rule_for("bot", "act", None, args)
        assert rule is not None
        return rule.verdict

    for path in ("/etc/passwd", "/srv/../etc/passwd", "//etc/passwd", ["/etc/passwd"]):
        assert verdict_on(path=path) == verdict
    for amount in (51, "51", [51]):
        assert verdict_on(amount=amount) == verdict
    assert verdict_on(path="/srv/etc/a", amount=50) == "allow"


def test_a_rule_can_have_a_schema_for_the_arguments() -> None:
    text = (
        '[[rule]]\nname = "reads"\nverdict = "allow"\n'
        '[rule.schema]\ntype = "object"\nrequired = ["path"]\nadditionalProperties = false\n'
        '[rule.schema.properties.path]\ntype = "string"\npattern = "^docs/"'
    )
    assert found(args={"path": "docs/a"}, text=text) == "reads"
    assert found(args={"path": "src/a"}, text=text) is None
    assert found(args={"path": "docs/a", "mode": "w"}, text=text) is None


@pytest.mark.parametrize(("verdict", "name"), [("allow", None), ("ask", "a"), ("deny", "a")])
def test_a_schema_that_cannot_be_checked_lets_nothing_pass(verdict: str, name: str | None) -> None:
    text = f'[[rule]]\nname = "a"\nverdict = "{verdict}"\nschema = {{ "$ref" = "#" }}'
    assert found(args={"path": "docs/a"}, text=text) == name


def test_an_argument_with_a_line_end_fits_no_pattern_for_one_line() -> None:
    text = (
        '[[rule]]\nname = "a"\nverdict = "allow"\n'
        "schema = { properties = { to = { pattern = '^[a-z]+@example[.]com$' } } }"
    )
    assert found(args={"to": "ann@example.com"}, text=text) == "a"
    assert found(args={"to": "ann@example.com\n"}, text=text) is None


def test_a_file_without_rules_is_one() -> None:
    assert RuleFile.parse("").rule == ()


def test_a_rule_says_why() -> None:
    rules = RuleFile.parse(FILE).rule
    assert rules[0].why == "Disks are not wiped from here."
    assert rules[2].why == "The rule 'large' asks a person."
    assert CallRule(name="n", verdict="deny").why == "The rule 'n' forbids it."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]", "no rules file"),
        ('[[rules]]\nname = "a"', "rules"),
        ('[[rule]]\nverdict = "allow"', "name"),
        ('[[rule]]\nname = "a"', "verdict"),
        ('[[rule]]\nname = "a"\nverdict = "yes"', "yes"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\ntols = "*"', "tols"),
        ('[[rule]]\nname = " "\nverdict = "allow"', "a name of its own"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\n[[rule]]\nname = "a"\nverdict = "deny"', "rule 2"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nwhere = {amount = {about = 5}}', "about"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nwhere = {amount = 5}', "where"),
        ('[[rule]]\nname = "a"\nverdict = "deny"\ndefinitions = ["v1"]', "definitions"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\ndefinitions = []', "definitions"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\ndefinitions = ["v1", ""]', "definitions"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nschema = {type = "thing"}', "no JSON schema"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nschema = {pattern = "^(?!x)"}', "looks around"),
        ('[[rule]]\nname = "a"\nverdict = "deny"\nschema = {unevaluatedProperties = false}', "unevaluated"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nschema = {"$ref" = "#/$defs/missing"}', "refers to"),
        (
            '[[rule]]\nname = "a"\nverdict = "deny"\nschema = {allOf = [{"$ref" = "https://a.example/x"}]}',
            "refers to",
        ),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nschema = {propertys = {}}', "propertys"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nschema = {properties = {a = {maxmum = 5}}}', "maxmum"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nschema = {items = {format = "email"}}', "format"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nschema = {dependencies = {a = ["b"]}}', "dependencies"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nschema = {properties = {a = {maximum = nan}}}', "nan"),
        (
            '[[rule]]\nname = "a"\nverdict = "allow"\n'
            'schema = {"$schema" = "http://json-schema.org/draft-04/schema#", exclusiveMaximum = 5}',
            "no JSON schema",
        ),
        (
            '[[rule]]\nname = "a"\nverdict = "allow"\nschema = {allOf = [' + "{minLength = 1}, " * 20_000 + "]}",
            "too long",
        ),
        ('[[rule]]\nname = "a"\nverdict = "deny"\ntool = ""', "fits nothing"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\ncaller = ""', "fits nothing"),
        ('[[rule]]\nname = "a"\nverdict = "ask"\nreviewers = ["group:"]', "reviewers"),
        ('[[rule]]\nname = "a"\nverdict = "ask"\ndeadline = 0', "deadline"),
        ('[[rule]]\nname = "a"\nverdict = "ask"\ndeadline = nan', "deadline"),
        ('[[rule]]\nname = "a"\nverdict = "ask"\nrisk = "huge"', "huge"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\nreviewers = ["ann"]', "reviewers"),
        ('[[rule]]\nname = "a"\nverdict = "deny"\nowner = false', "owner"),
        ('[[rule]]\nname = "a"\nverdict = "allow"\ndeadline = 5', "deadline"),
        ("\n".join(f'[[rule]]\nname = "{n}"\nverdict = "ask"' for n in range(MOST_RULES + 1)), "at most"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_and_says_where(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        RuleFile.parse(text, "rules.toml")
    assert "rules.toml" in str(caught.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(FILE, "utf-8")
    assert [rule.name for rule in RuleFile.read(path).rule] == ["no disks", "small", "large"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "missing.toml", tmp_path / "bytes.toml", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            RuleFile.read(path)
