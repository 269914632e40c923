"""Dataset cards, read without YAML's surprises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evalkit.cards import Card, Policy, Rule, Version, load_card
from evalkit.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from tests.conftest import Maker

DIGEST = "0" * 64
VERSIONS = f'  versions:\n    v1: {{items: 2, sha256: "{DIGEST}"}}\n'
HEAD = "evalkit:\n  schema: evalkit.labelset/1\n"


class LoadFront:
    """Loads the card with a given front matter."""

    def __init__(self, make: Maker) -> None:
        self._make = make

    def text(self, text: str | bytes) -> Card:
        return load_card(self._make.file(text, "README.md").parent, "card")

    def __call__(self, front: str) -> Card:
        return self.text(f"---\n{front}---\n# A set\n")

    def problems(self, front: str) -> list[str]:
        with pytest.raises(InputError) as caught:
            self(front)
        return str(caught.value).splitlines()

    def policy(self, rules: str, default: str = "keep") -> list[str]:
        return self.problems(f"{HEAD}  policy:\n    default: {default}\n    rules:\n{rules}{VERSIONS}")


@pytest.fixture
def load(make: Maker) -> LoadFront:
    return LoadFront(make)


def rule(option: str = "B", at_least: str = "0.85", action: str = "drop") -> str:
    return f"      - {{option: {option}, at_least: {at_least}, action: {action}}}\n"


def test_card_says_what_the_front_matter_says(load: LoadFront) -> None:
    card = load(
        "pretty_name: Two texts\nlanguage: [zh, en]\nlicense: mit\n"
        "configs:\n  - config_name: v1\n    default: true\n  - config_name: v2\n"
        f"{HEAD}  headline: mean_family_balanced_accuracy\n"
        f"  policy:\n    default: keep\n    rules:\n{rule()}{rule('A', '1', 'pass')}"
        f'{VERSIONS}    v2: {{items: 3, sha256: "{DIGEST}", released: 2026-12-01, changes: one more}}\n'
    )
    assert card.title == "Two texts"
    assert card.headline == "mean_family_balanced_accuracy"
    assert card.policy == Policy((Rule("B", 0.85, "drop"), Rule("A", 1.0, "pass")), "keep")
    assert dict(card.versions) == {
        "v1": Version("v1", 2, DIGEST),
        "v2": Version("v2", 3, DIGEST, "2026-12-01", "one more"),
    }
    assert (card.default, card.license, card.languages) == ("v1", "mit", ("zh", "en"))


def test_card_with_the_least_it_needs_has_defaults(load: LoadFront) -> None:
    card = load(HEAD + VERSIONS)
    assert card.title == card.folder.name
    assert (card.headline, card.policy, card.license, card.languages) == ("balanced_accuracy", None, "", ())


def test_policy_to_dict_is_what_the_card_wrote() -> None:
    policy = Policy((Rule("B", 0.85, "drop"),), "keep")
    assert policy.to_dict() == {
        "default": "keep",
        "rules": [{"option": "B", "at_least": 0.85, "action": "drop"}],
    }


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ("", "v2"),
        ("configs: []\n", "v2"),
        ("configs: [v1]\n", "v2"),
        ("configs: {config_name: v1, default: true}\n", "v1"),
        ("configs:\n  - {config_name: v1, default: yes}\n", "v1"),
        ('configs:\n  - {config_name: v1, default: "true"}\n', "v2"),
    ],
)
def test_default_version_is_the_marked_one_else_the_last(
    load: LoadFront, configs: str, expected: str
) -> None:
    second = f'    v2: {{items: 2, sha256: "{DIGEST}"}}\n'
    assert load(configs + HEAD + VERSIONS + second).default == expected


def test_default_config_has_to_be_a_version(load: LoadFront) -> None:
    found = load.problems(f"configs:\n  - {{config_name: v3, default: true}}\n{HEAD}{VERSIONS}")
    assert found == ["card: the default config 'v3' is not among the versions v1"]


@pytest.mark.parametrize("start", ["\ufeff", ""])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_card_of_windows_is_read(load: LoadFront, start: str, newline: str) -> None:
    text = f"{start}---\n{HEAD}{VERSIONS}---  \n# A set\n"
    assert load.text(text.replace("\n", newline).encode("utf-8")).default == "v1"


def test_missing_card_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"README.md: cannot be read .*: a label set needs a card"):
        load_card(tmp_path)


def test_card_that_is_not_utf8_is_refused(load: LoadFront) -> None:
    with pytest.raises(InputError, match="card: not UTF-8 at byte 4"):
        load.text(b"---\n\xff")


@pytest.mark.parametrize(
    "text", ["", "# A set\n", "---\nevalkit: {}\n", "text\n---\nx: 1\n---\n", "----\n---\n"]
)
def test_card_without_front_matter_is_refused(load: LoadFront, text: str) -> None:
    with pytest.raises(InputError, match="card:1: has no YAML front matter between two lines `---`"):
        load.text(text)


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("- a\n- b\n", "card:1: the front matter is not a mapping"),
        ("", "card:1: the front matter is not a mapping"),
        ("license: mit\n", "card: the front matter has no `evalkit:` block: add schema, policy and versions"),
        ("evalkit: yes\n", "card: the front matter has no `evalkit:` block"),
        ("a: [\n", "not YAML"),
        ("a: b: c\n", "card:2: not YAML (mapping values are not allowed here)"),
        ("x: 1\na: *nothing\n", "card:3: not YAML (aliases are not allowed in a card)"),
        ("a: &x {b: 1}\nc: *x\n", "card:3: not YAML (aliases are not allowed in a card)"),
        ("a: 1\nb: {c: 1, c: 2}\n", "card:3: not YAML (the key c occurs twice)"),
        ("license: mit\nlicense: other\n", "card:3: not YAML (the key license occurs twice)"),
        ("a: !!python/object/apply:os.system [ls]\n", "not YAML (could not determine a constructor"),
        ("a: 2026-13-45\n", "card: not YAML (month must be in 1..12"),
        (
            "a: " + "[" * 3000 + "]" * 3000 + "\n",
            "card:2: not YAML (nested too deeply",
        ),
        ("a: " + "9" * 5000 + "\n", "card: not YAML (a number has thousands of digits)"),
        ("? [a]\n: 1\n", "not YAML"),
        ("a: \x00\n", "not YAML"),
    ],
)
def test_front_matter_that_is_no_card_is_refused(load: LoadFront, front: str, expected: str) -> None:
    found = load.problems(front)
    assert len(found) == 1
    assert found[0].startswith("card:")
    assert expected in found[0]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (VERSIONS, "card: $.evalkit: 'schema' is a required property"),
        ("  schema: evalkit.labelset/1\n", "card: $.evalkit: 'versions' is a required property"),
        ("  schema: evalkit.labelset/2\n" + VERSIONS, "card: $.evalkit.schema: "),
        ("  schema: evalkit.labelset/1\n  versions: {}\n", "card: $.evalkit.versions: "),
        ("  schema: evalkit.labelset/1\n  surprise: 1\n" + VERSIONS, "'surprise' was unexpected"),
        ("  schema: evalkit.labelset/1\n  headline: accuracy\n" + VERSIONS, '"accuracy" is none of balanced'),
        (
            "  schema: evalkit.labelset/1\n  versions: {v1: {items: 0, sha256: x}}\n",
            "$.evalkit.versions.v1.items",
        ),
        (
            "  schema: evalkit.labelset/1\n  versions: {v1: {items: 1, sha256: ABC}}\n",
            "$.evalkit.versions.v1.sha256",
        ),
        ("  schema: evalkit.labelset/1\n  versions: {v1: {items: 1}}\n", "'sha256' is a required property"),
        ("  schema: evalkit.labelset/1\n  versions: {../v1: {items: 1, sha256: x}}\n", "'../v1'"),
        ("  schema: evalkit.labelset/1\n  versions: 1\n", "expected object, found 1"),
    ],
)
def test_block_that_violates_its_schema_is_refused_with_the_place(
    load: LoadFront, block: str, expected: str
) -> None:
    found = load.problems("evalkit:\n" + block)
    assert any(expected in line for line in found)
    assert all(line.startswith("card: $.evalkit") for line in found)


@pytest.mark.parametrize(
    "value",
    [
        ".nan",
        ".inf",
        "-.inf",
        "-0.1",
        "1.01",
        "85",
        "85%",
        '"0.85"',
        "0,85",
        "1_0",
        "9e-1",
        "yes",
        "null",
        "1:30",
        "[0.85]",
    ],
)
def test_threshold_that_is_none_is_refused_with_a_remedy(load: LoadFront, value: str) -> None:
    found = load.policy(f"      - {{option: B, action: drop, at_least: {value} }}\n")
    assert len(found) == 1
    assert found[0].startswith("card: $.evalkit.policy.rules[0]")
    assert found[0].endswith("at_least is a number from 0 to 1, written like 0.85")


@pytest.mark.parametrize("value", ["0", "1", "0.85", "8.5e-1", "1.0"])
def test_threshold_from_zero_to_one_is_taken_as_it_is(load: LoadFront, value: str) -> None:
    card = load(f"{HEAD}  policy:\n    default: keep\n    rules:\n{rule(at_least=value)}{VERSIONS}")
    assert card.policy is not None
    assert card.policy.rules[0].at_least == float(value)


@pytest.mark.parametrize("name", ["yes", "no", "on", "off", "1", "null", '""', "[a]"])
@pytest.mark.parametrize("place", ["option", "action", "default"])
def test_names_that_yaml_reads_as_something_else_are_refused(load: LoadFront, place: str, name: str) -> None:
    rules = rule() if place == "default" else rule(**{place: name})
    found = load.policy(rules, name if place == "default" else "keep")
    assert len(found) == 1
    assert found[0].startswith("card: $.evalkit.policy.")
    assert "put the name in quotes" in found[0]


def test_quoted_names_stay_text(load: LoadFront) -> None:
    rules = rule(option="'on'", action='"yes"')
    card = load(f"{HEAD}  policy:\n    default: 'no'\n    rules:\n{rules}{VERSIONS}")
    assert card.policy == Policy((Rule("on", 0.85, "yes"),), "no")


def test_misspelt_threshold_is_refused(load: LoadFront) -> None:
    found = load.policy("      - {option: B, at_last: 0.85, action: drop}\n")
    assert any("'at_last' was unexpected" in line and "at_least is a number" in line for line in found)
    assert any("'at_least' is a required property" in line for line in found)


def test_all_problems_of_a_card_are_listed(load: LoadFront) -> None:
    found = load.policy(rule(at_least="2") + rule(option="no") + rule(at_least=".nan"), "on")
    assert sorted(line.split(": ")[1] for line in found) == [
        "$.evalkit.policy.default",
        "$.evalkit.policy.rules[0].at_least",
        "$.evalkit.policy.rules[1].option",
        "$.evalkit.policy.rules[2].at_least",
    ]
