"""The rules file: what is taken, what is refused, and where the message points."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.errors import InputError, NotFoundError, UsageError
from evalkit.gate.rules import GateRule, Must, RuleSet, load_rules, rules_from

RULE = '[[rule]]\nmetric = "accuracy"\nop = ">="\nvalue = 0.9\n'


def written(folder: Path, text: str | bytes, name: str = "gate.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def refused(folder: Path, text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        load_rules(written(folder, text), "gate.toml")
    return str(caught.value)


def test_rules_full_form_is_read(tmp_path: Path) -> None:
    text = (
        'must = {"grad-05" = "A", "grad-06" = {action = "keep"}}\n'
        + RULE
        + 'slice = "part=a=b"\nuse = "low"\nseverity = "warning"\nname = "good"\n'
        + 'inconclusive = "pass"\nrun = "reference"\n'
    )
    found = load_rules(written(tmp_path, text), "gate.toml")
    assert found.rules == (
        GateRule(
            "accuracy", ">=", 0.9, "good", ("part", "a=b"), "reference", "low", "warning", "pass", line=2
        ),
    )
    assert found.must == (Must("grad-05", "A"), Must("grad-06", "keep", "action"))
    assert found.lines == {"grad-05": 1, "grad-06": 1}
    assert found.fields == ("part",)
    assert found.sha256 is not None
    assert len(found.sha256) == 64


def test_rules_path_through_a_slice_names_its_field() -> None:
    rules = tuple(
        GateRule(metric, "<=", 0) for metric in ("diff.by.variant.x.broken", "by.part.y.accuracy", "nll")
    )
    assert RuleSet(rules).fields == ("variant", "part")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("value = nan", "gate.toml:1: $.rule[0].value: nan is no limit"),
        ("value = inf", "inf is no limit"),
        (
            "value = true",
            "gate.toml:1: $.rule[0].value: expected number, found true: write a number without quotes",
        ),
        ('value = "0.9"', 'expected number, found "0.9"'),
        ("value = 2030-01-01", "expected number"),
        (f"value = 1{'0' * 400}", "is no limit"),
    ],
)
def test_rules_value_that_is_no_finite_number_is_refused(tmp_path: Path, line: str, wanted: str) -> None:
    assert wanted in refused(tmp_path, RULE.replace("value = 0.9", line))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            RULE + "treshold = 1\n",
            "gate.toml:1: $.rule[0]: Additional properties are not allowed ('treshold'",
        ),
        (
            RULE + "treshold = 1\n",
            "known keys: metric, op, value, name, slice, run, use, severity, inconclusive",
        ),
        ("fail_fast = true\n" + RULE, "known keys: rule, must"),
        (RULE.replace(">=", "=>"), '"=>" is none of <=, >=, <, >, =='),
        (RULE + 'slice = "authored"\n', 'write FIELD=VALUE, for example "part=authored"'),
        (RULE + 'use = "mean"\n', "is none of value, low, high"),
        (RULE + 'severity = "info"\n', "is none of error, warning"),
        (RULE + 'run = "both"\n', "is none of candidate, reference"),
        (RULE + 'inconclusive = "skip"\n', "is none of fail, pass"),
        (RULE.replace('metric = "accuracy"\n', ""), "'metric' is a required property"),
        ("must = {q1 = 5}\n" + RULE, "has none of the allowed forms"),
        ("must = {q1 = {choice = 'A', action = 'keep'}}\n" + RULE, "has none of the allowed forms"),
        ("", "gate.toml: holds no rule: a gate without rules would pass anything"),
        ("rule = []\nmust = {}\n", "holds no rule"),
        ("rule = 5\n", "expected array"),
        (RULE + RULE, "gate.toml:5: $.rule[1]: is called 'accuracy >= 0.9' like rule 1"),
        (RULE.replace(">=", "==") + 'use = "low"\n', "an end of an interval cannot be judged with =="),
    ],
)
def test_rules_senseless_file_is_refused(tmp_path: Path, text: str, wanted: str) -> None:
    assert wanted in refused(tmp_path, text)


def test_rules_all_problems_are_listed(tmp_path: Path) -> None:
    message = refused(tmp_path, RULE.replace("0.9", "nan") + RULE.replace("0.9", "-inf"))
    assert "gate.toml:1: $.rule[0].value" in message
    assert "gate.toml:5: $.rule[1].value" in message


def test_rules_equal_names_are_refused(tmp_path: Path) -> None:
    other = RULE.replace("accuracy", "nll")
    assert "is called 'x' like rule 1" in refused(tmp_path, RULE + 'name = "x"\n' + other + 'name = "x"\n')


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"[[rule]\n", "gate.toml:1: not TOML"),
        (b"metric = 1\nmetric = 2\n", "gate.toml:2: not TOML (Cannot overwrite a value)"),
        ("a = '\u4e2d'".encode("gbk"), "gate.toml: not UTF-8 at byte 5"),
        (RULE.encode("utf-16"), "gate.toml: not UTF-8 at byte 0: save it as UTF-8"),
        (b"a = " + b"9" * 5000, "gate.toml: not TOML"),
        (b"a = " + b"[" * 100_000, "gate.toml: not TOML"),
        (b"[" + b".".join([b"a"] * 5000) + b"]", "gate.toml: not TOML (nested too deeply)"),
    ],
)
def test_rules_damaged_file_is_refused(tmp_path: Path, raw: bytes, wanted: str) -> None:
    assert wanted in refused(tmp_path, raw)


def test_rules_byte_order_mark_and_crlf_are_taken(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbf" + RULE.replace("\n", "\r\n").encode())
    assert load_rules(path).rules[0].line == 1


@pytest.mark.parametrize("name", ["gate.yaml", "gate.yml", "gate.json", "gate"])
def test_rules_other_file_type_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="unsupported file type; rules are TOML"):
        load_rules(written(tmp_path, RULE, name), name)


def test_rules_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        NotFoundError, match=r"no\.toml: cannot be read \(No such file or directory\): check --rules"
    ):
        load_rules(tmp_path / "no.toml", "no.toml")


def test_rules_inline_tables_have_no_lines() -> None:
    text = 'rule = [{metric = "ties", op = "<=", value = 1}]'
    found = rules_from({"rule": [{"metric": "ties", "op": "<=", "value": 1}]}, text=text)
    assert found.rules[0].line is None


def test_rules_commented_item_is_not_its_line(tmp_path: Path) -> None:
    text = RULE + '#[must]\n#"q1" = "B"\n[must]\n"q1" = "A"\n'
    assert load_rules(written(tmp_path, text)).lines == {"q1": 8}


def test_rules_item_with_an_escaped_name_has_no_line(tmp_path: Path) -> None:
    assert load_rules(written(tmp_path, RULE + '[must]\n"q\\u0031" = "A"\n')).lines == {}


@pytest.mark.parametrize(
    ("rule", "label"),
    [
        (GateRule("ties", "<=", 5.0), "ties <= 5"),
        (GateRule("ties", "<=", 5.0, name="few ties"), "few ties"),
        (GateRule("ece", "<", 1e-7), "ece < 1e-07"),
        (
            GateRule("accuracy", ">=", 0.8, slice=("part", "x"), run="reference", use="low"),
            "accuracy [part=x, reference, low end] >= 0.8",
        ),
    ],
)
def test_rule_label_says_what_is_asked(rule: GateRule, label: str) -> None:
    assert rule.label == label


@pytest.mark.parametrize(
    ("op", "use", "strict"),
    [
        (">=", "low", True),
        (">=", "high", False),
        ("<=", "high", True),
        ("<", "low", False),
        (">", "low", True),
    ],
)
def test_rule_on_the_far_end_wants_proof(op: str, use: str, strict: bool) -> None:
    assert GateRule("accuracy", op, 0, use=use).strict is strict
