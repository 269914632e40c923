"""What a gate checks: configuration files, rules by name, runs and label sets by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evalkit.catalog import Catalog
from evalkit.errors import ChecksumError, InputError, NotFoundError, UsageError
from evalkit.gate.config import Spec, configured, find_rules, load
from evalkit.gate.lock import accept, figures, locked_reference, read_lock
from evalkit.gate.rules import rules_from
from evalkit.gate.scaffold import rules_text
from evalkit.scoring import Options, score

if TYPE_CHECKING:
    from tests.conftest import Maker

SURE, OTHER = {"A": 0.9, "B": 0.1}, {"A": 0.2, "B": 0.8}
RULES = '[[rule]]\nmetric = "accuracy"\nop = ">="\nvalue = 0.5\n'
POLICY = "  policy: {default: keep, rules: [{option: B, at_least: 0.8, action: drop}]}\n"


def belongs_to(name: str) -> dict[str, Any]:
    """A sidecar, so that no other label set has to be looked at."""
    return {"schema": "evalkit.meta/1", "label_set": {"name": name}}


@pytest.fixture
def project(make: Maker, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a label set, three runs on it, one more set with a run of the same name, and rules."""
    root = make.folder()
    items = [make.item(f"q{n}", label="A", part="one" if n < 2 else "two") for n in range(3)]
    make.label_set(root, "small", {"v1": items}, extra=POLICY)
    make.label_set(root, "other", {"v1": [make.item("z1", label="A")]})
    for name, values in (("base", [SURE] * 3), ("quant", [SURE, OTHER, SURE]), ("again", [SURE] * 3)):
        rows = [make.row(f"q{n}", p) for n, p in enumerate(values)]
        make.run_file(root, f"small/{name}", rows, meta=belongs_to("small"))
    make.run_file(root, "other/quant", [make.row("z1", SURE)], meta=belongs_to("other"))
    (root / "gates").mkdir()
    (root / "gates" / "own.toml").write_text(RULES, "utf-8")
    monkeypatch.chdir(root)
    return root


def catalog(root: Path) -> Catalog:
    return Catalog.at(root)


# configuration


def test_config_checks_take_what_they_do_not_say(project: Path) -> None:
    (project / "evalkit.toml").write_text(
        '[gate]\nlabels = "small"\nreference = "base"\nnoise = ["again"]\n'
        '[[gate.check]]\nname = "one"\ncandidate = "quant"\nonly = {part = "one"}\n'
        '[[gate.check]]\ncandidate = "base"\nreference = "again"\nnoise = []\nrules = "own"\n',
        "utf-8",
    )
    assert configured(project) == [
        Spec("quant", "base", labels="small", noise=("again",), only={"part": "one"}, name="one"),
        Spec("base", "again", labels="small", rules="own"),
    ]


def test_config_of_one_check_needs_no_list(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.evalkit.gate]\ncandidate = "quant"\nlock = "l.json"\n', "utf-8"
    )
    assert configured(project) == [Spec("quant", lock="l.json")]


def test_config_of_other_tools_is_none(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.evalkit]\n[project]\nname = 'x'\n", "utf-8")
    (project / "evalkit.toml").write_text("gate_keeper = 1\n", "utf-8")
    with pytest.raises(UsageError, match="nothing to judge: name a run, or list checks under"):
        configured(project)


def test_config_in_both_files_is_refused(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.evalkit.gate]\ncandidate = "quant"\n', "utf-8")
    (project / "evalkit.toml").write_text('[gate]\ncandidate = "base"\n', "utf-8")
    with pytest.raises(InputError, match=r"pyproject\.toml configures the gate as well: keep one of the two"):
        configured(project)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[gate]\ncandidat = "x"\n', r"'candidat' was unexpected.*known keys: candidate, reference"),
        ('[[gate.check]]\ncandidate = "x"\nrule = "y"\n', r"\$\.gate\.check\[0\].*'rule' was unexpected"),
        ('[gate]\nlabels = "x"\n', "names no candidate"),
        (
            '[gate]\nreference = "r"\n[[gate.check]]\nname = "n"\n',
            r"\$\.gate\.check\[0\]: names no candidate",
        ),
        ('[gate]\ncandidate = "x"\nreference = "r"\nlock = "l"\n', "names both a reference and a lock"),
        ("[gate]\ncandidate = 5\n", "expected string, found 5"),
        ('[gate]\ncandidate = "x"\ncheck = []\n', "0 entries, at least 1 needed"),
        ("gate = 5\n", "expected object, found 5"),
        ("[gate\n", r"evalkit\.toml:1: not TOML"),
    ],
)
def test_config_that_makes_no_sense_is_refused(project: Path, text: str, message: str) -> None:
    (project / "evalkit.toml").write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        configured(project)


# rules by name


def test_rules_are_found_by_path_and_by_name(project: Path) -> None:
    named = find_rules("own", catalog(project))
    assert (named.file, len(named.rules)) == ("gates/own.toml", 1)
    assert find_rules("gates/own.toml", catalog(project)).rules == named.rules
    assert find_rules("strict", catalog(project)).file.endswith("gates/strict.toml")


def test_rules_are_the_default_ones_where_none_are_named(project: Path) -> None:
    rules = find_rules(None, catalog(project)).rules
    assert [(rule.metric, rule.severity) for rule in rules] == [
        ("accuracy_delta", "error"),
        ("changed_share", "error"),
        ("headline_delta", "warning"),
        ("changed_share", "warning"),
    ]


def test_rules_of_unknown_name_are_refused_with_those_there_are(project: Path) -> None:
    with pytest.raises(
        NotFoundError, match=r"nope: no rules file of this name; there are default, .*own, strict"
    ):
        find_rules("nope", catalog(project))


@pytest.mark.parametrize("name", ["gate.yaml", "rules.json"])
def test_rules_of_another_type_are_refused(project: Path, name: str) -> None:
    with pytest.raises(UsageError, match="unsupported file type"):
        find_rules(name, catalog(project))


# runs and label sets


def test_load_names_mean_one_check(project: Path) -> None:
    spec = Spec("quant", "base", rules="own", noise=("again",), only={"part": "one"}, name="mine")
    (found,) = load(spec, catalog(project), Options())
    assert (found.candidate.name, found.reference and found.reference.name) == ("quant", "base")
    assert [run.name for run in found.noise] == ["again"]
    assert (found.labels and found.labels.name, found.name) == ("small", "mine")
    assert found.options.only == {"part": "one"}


def test_load_of_a_name_in_several_sets_means_a_check_each(project: Path) -> None:
    found = load(Spec("quant", rules="own"), catalog(project), Options())
    assert [one.labels and one.labels.name for one in found] == ["other", "small"]


def test_load_without_labels_judges_drift(project: Path) -> None:
    (found,) = load(Spec("quant", "base", rules="own", without_labels=True), catalog(project), Options())
    assert found.labels is None


def test_load_reads_the_fields_that_rules_slice_by(make: Maker) -> None:
    root = make.folder()
    labels = root / "labels.jsonl"
    labels.write_text(make.text([make.item("q1", label="A", level="easy")]), "utf-8")
    run = root / "run.jsonl"
    run.write_text(make.text([make.row("q1", SURE)]), "utf-8")
    (root / "g.toml").write_text(RULES + 'slice = "level=easy"\n', "utf-8")
    (found,) = load(Spec(str(run), labels=str(labels), rules=str(root / "g.toml")), catalog(root), Options())
    assert found.labels is not None
    assert "level" in found.labels.fields


# lock


def locked(project: Path, name: str = "small/base", key: str = "small") -> Path:
    path = project / "evalkit.lock.json"
    ((found,),) = catalog(project).resolve([name])
    (inputs,) = load(Spec(name, rules="own"), catalog(project), Options())
    assert inputs.labels is not None
    accept(path, key, found, score(inputs.labels, inputs.candidate), reason="a start")
    return path


def test_lock_holds_names_digests_and_figures(project: Path) -> None:
    entry = read_lock(locked(project))["small"]
    assert entry["reference"]["name"] == "small/base"
    assert entry["label_set"]["name"] == "small"
    assert len(entry["reference"]["sha256"]) == len(entry["label_set"]["sha256"]) == 64
    assert entry["reason"] == "a start"
    assert entry["figures"] == {
        "items": 3, "ties": 0, "accuracy": 1.0, "balanced_accuracy": 1.0, "nll": 0.105361, "ece": 0.1,
        "wrong_actions": 0, "actions": {"drop": 0, "keep": 3, "undetermined": 0},
    }  # fmt: skip


def test_lock_is_small_and_the_same_every_time(project: Path) -> None:
    path = locked(project)
    first = path.read_bytes()
    assert locked(project).read_bytes() == first
    assert len(first) < 1500


def test_lock_keeps_other_entries_in_order(project: Path) -> None:
    locked(project, key="z")
    path = locked(project, "other/quant", "a")
    assert [*read_lock(path)] == ["a", "z"]


def test_lock_names_a_run_by_its_path_where_it_has_one(project: Path) -> None:
    locked(project, "runs/small/base.jsonl")
    assert read_lock(project / "evalkit.lock.json")["small"]["reference"]["name"] == "runs/small/base.jsonl"


def test_lock_gives_the_reference(project: Path) -> None:
    path = locked(project)
    (found,) = load(
        Spec("small/quant", lock=str(path), rules="own", noise=("small/again",)), catalog(project), Options()
    )
    assert (found.reference and found.reference.name, found.candidate.name) == ("base", "quant")
    assert [run.name for run in found.noise] == ["again"]


def test_lock_of_an_ambiguous_candidate_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match="quant is a run of several label sets; write other/quant"):
        load(Spec("quant", lock=str(locked(project)), rules="own"), catalog(project), Options())


def damaged(project: Path, change: str) -> Path:
    path = locked(project)
    text = path.read_text("utf-8")
    sha = read_lock(path)["small"]["reference"]["sha256"]
    set_sha = read_lock(path)["small"]["label_set"]["sha256"]
    path.write_text(
        {
            "run": text.replace(sha, "0" * 64),
            "labels": text.replace(set_sha, "0" * 64),
            "entry": text.replace('"small": {', '"large": {'),
            "schema": text.replace("evalkit.lock/1", "evalkit.lock/9"),
            "torn": text[:50],
            "gone": text.replace("small/base", "small/bose"),
        }[change],
        "utf-8",
    )
    return path


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ("run", ChecksumError, r"base\.jsonl: sha256 is .* but .*evalkit\.lock\.json accepted 0000"),
        ("labels", ChecksumError, r"v1\.jsonl: sha256 is .* accept the reference anew: evalkit gate accept"),
        ("entry", NotFoundError, r"has no entry 'small' \(there are: large\)"),
        ("schema", InputError, "does not meet const"),
        ("torn", InputError, "unfinished record"),
        ("gone", NotFoundError, "small/bose: no run of this name or path; did you mean small/base"),
    ],
)
def test_lock_that_is_damaged_is_refused(
    project: Path, change: str, error: type[InputError], message: str
) -> None:
    path = damaged(project, change)
    labels = catalog(project).labels("small")
    with pytest.raises(error, match=message):
        locked_reference(path, "small", labels, catalog(project))


def test_lock_that_is_missing_is_refused(project: Path) -> None:
    with pytest.raises(NotFoundError, match="cannot be read"):
        locked_reference(project / "no.json", "small", catalog(project).labels("small"), catalog(project))


def test_lock_refuses_a_run_that_lacks_items(project: Path, make: Maker) -> None:
    rows = [make.row("q0", SURE), make.row("q1", status="error", error="timeout")]
    make.run_file(project, "small/part", rows, meta=belongs_to("small"))
    with pytest.raises(InputError, match="cannot be a reference: of 3 items there are 1 missing, 1 error"):
        locked(project, "small/part")
    assert not (project / "evalkit.lock.json").exists()


def test_lock_says_which_items_it_is_about(project: Path) -> None:
    ((found,),) = catalog(project).resolve(["small/base"])
    (inputs,) = load(Spec("small/base", rules="own"), catalog(project), Options())
    assert inputs.labels is not None
    report = score(inputs.labels, inputs.candidate, Options(only={"part": "one"}))
    entry = accept(project / "l.json", "small", found, report, only={"part": "one"})
    assert (entry["only"], entry["figures"]["items"]) == ({"part": "one"}, 2)
    assert "reason" not in entry


def test_figures_without_labels_are_those_there_are(make: Maker) -> None:
    labels = make.labels([make.item("q1")])
    found = figures(score(labels, make.run([make.row("q1", SURE)])))
    assert found == {"items": 1, "ties": 0}


# a first rules file


def text_of(project: Path, name: str = "small/base") -> str:
    (inputs,) = load(Spec(name, rules="own"), catalog(project), Options())
    assert inputs.labels is not None
    return rules_text(
        score(inputs.labels, inputs.candidate),
        reference=name,
        file="gate.toml",
        set_name="small",
        label_sets=["small"],
        runs=["small/base"],
    )


def test_first_rules_come_from_the_reference_and_say_so(project: Path) -> None:
    text = text_of(project)
    assert "The values are those of the current reference, base on small@v1" in text
    assert "evalkit gate CANDIDATE --reference small/base --labels small --rules gate.toml" in text
    assert '#"q0" = {choice = "A"}' in text
    import tomllib

    rules = rules_from(tomllib.loads(text)).rules
    assert [rule.metric for rule in rules] == [
        "balanced_accuracy", "balanced_accuracy", "headline_delta", "changed_share", "policy.wrong_actions",
        "policy.treated_differently", "censored",
    ]  # fmt: skip
    assert rules[0].value == 0.438  # the low end of the Wilson interval of 3 of 3, rounded down


def test_first_rules_without_labels_or_policy_leave_out_what_there_is_not(make: Maker) -> None:
    import tomllib

    labels = make.labels([make.item("q\u00e9\u5b66\n\x7f", "AB")])
    report = score(labels, make.run([make.row("q\u00e9\u5b66\n\x7f", SURE)], "r\u2028un"))
    text = rules_text(report, reference="r\nx", file="g.toml", set_name="s", label_sets=[], runs=[])
    assert [rule.metric for rule in rules_from(tomllib.loads(text)).rules] == ["changed_share", "censored"]
    assert "--reference r x --labels s" in text
    assert "label sets none; runs none" in text


def test_first_rules_quote_ids_as_toml_does(make: Maker) -> None:
    import tomllib

    name = 'a"b\\c\n\u5b66\x7f'
    labels = make.labels([make.item(name, label="A")])
    report = score(labels, make.run([make.row(name, SURE)]))
    text = rules_text(report, reference="r", file="g", set_name="s", label_sets=[], runs=[])
    assert rules_from(tomllib.loads(text.replace("#[must]", "[must]").replace('#"', '"'))).must[0].id == name
