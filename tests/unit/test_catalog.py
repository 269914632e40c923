"""Finding label sets and runs by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evalkit import catalog
from evalkit.catalog import Catalog, RunFile, covers, read_run, shipped_root, shown
from evalkit.errors import ChecksumError, InputError, NotFoundError, UsageError

if TYPE_CHECKING:
    from tests.conftest import Maker

SHIPPED_SETS = {"graduate-18", "semif-252"}


class Roots:
    """A user's own root in the current folder and a shipped one."""

    def __init__(self, make: Maker, own: Path, shipped: Path) -> None:
        self.make, self.own, self.shipped = make, own, shipped

    def run(
        self, place: str, *, root: Path | None = None, ids: str = "ab", meta: dict[str, Any] | None = None
    ) -> Path:
        rows = [self.make.row(name, {"A": 0.9, "B": 0.1}) for name in ids]
        return self.make.run_file(root or self.own, place, rows, meta=meta)

    def labels(self, name: str, *, root: Path | None = None, ids: str = "ab", versions: str = "v1") -> Path:
        items = [self.make.item(item, "AB", "A") for item in ids]
        return self.make.label_set(root or self.own, name, dict.fromkeys(versions.split(), items))

    def names(self, *names: str) -> list[tuple[str, ...]]:
        return [
            tuple(file.path.relative_to(self.own.parent).as_posix() for file in group)
            for group in Catalog((self.own, self.shipped)).resolve(names)
        ]


@pytest.fixture
def roots(make: Maker, monkeypatch: pytest.MonkeyPatch) -> Roots:
    base = make.folder()
    (base / "own").mkdir()
    (base / "shipped").mkdir()
    monkeypatch.chdir(base / "own")
    monkeypatch.setattr(catalog, "shipped_root", lambda: base / "shipped")
    return Roots(make, base / "own", base / "shipped")


def message(error: type[Exception], function: Any, *arguments: Any) -> str:
    with pytest.raises(error) as caught:
        function(*arguments)
    return str(caught.value)


# roots


def test_shipped_root_of_a_checkout_is_the_checkout() -> None:
    root = shipped_root()
    assert root == Path(catalog.__file__).parent.parent
    assert Catalog((root,)).label_folders().keys() >= SHIPPED_SETS


def test_shipped_root_of_an_installed_package_is_inside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_shipped").mkdir()
    monkeypatch.setattr(catalog, "__file__", str(tmp_path / "catalog.py"))
    assert shipped_root() == tmp_path / "_shipped"


def test_roots_are_the_current_folder_and_the_shipped_one(roots: Roots) -> None:
    assert Catalog.at().roots == (Path(), roots.shipped)


def test_root_may_be_named_or_come_from_the_environment(
    roots: Roots, monkeypatch: pytest.MonkeyPatch, make: Maker
) -> None:
    other, named = make.folder(), make.folder()
    monkeypatch.setenv("EVALKIT_ROOT", str(other))
    assert Catalog.at().roots == (other, roots.shipped)
    assert Catalog.at(named).roots == (named, roots.shipped)
    assert Catalog.at(str(named)).roots == (named, roots.shipped)


def test_shipped_root_named_as_root_is_not_looked_at_twice(
    roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Catalog.at(roots.shipped).roots == (roots.shipped,)
    monkeypatch.chdir(roots.shipped)
    assert Catalog.at().roots == (Path(),)


@pytest.mark.usefixtures("roots")
def test_root_that_is_no_folder_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "gone: is no folder: check --root and EVALKIT_ROOT"
    assert message(NotFoundError, Catalog.at, "gone") == expected
    monkeypatch.setenv("EVALKIT_ROOT", "gone")
    assert message(NotFoundError, Catalog.at) == expected


# label sets


def test_label_set_is_found_by_name_version_and_path(roots: Roots) -> None:
    folder = roots.labels("demo", versions="v1 v2")
    found = Catalog.at()
    for name, version in [
        ("demo", "v2"),
        ("demo@v1", "v1"),
        (str(folder), "v2"),
        (f"{folder}@v1", "v1"),
        ("labels/demo", "v2"),
        ("labels/demo/v1.jsonl", "v1"),
    ]:
        labels = found.labels(name)
        assert (labels.name, labels.version, labels.file) == ("demo", version, f"labels/demo/{version}.jsonl")


def test_own_label_set_comes_before_the_shipped_one(roots: Roots) -> None:
    roots.labels("demo", ids="own")
    roots.labels("demo", root=roots.shipped, ids="shi")
    roots.labels("extra", root=roots.shipped)
    assert Catalog.at().labels("demo").ids.to_pylist() == list("own")
    assert list(Catalog.at().label_folders()) == ["demo", "extra"]
    assert list(Catalog.at().own_label_folders()) == ["demo"]


def test_label_set_in_a_folder_with_an_at_sign_is_found(roots: Roots, make: Maker) -> None:
    folder = make.folder() / "me@home"
    folder.mkdir()
    path = roots.labels("demo", root=folder)
    assert Catalog.at().labels(str(path)).version == "v1"
    assert Catalog.at().labels(f"{path}@v1").version == "v1"


def test_label_file_without_a_card_is_a_bare_file(roots: Roots, make: Maker) -> None:
    path = make.file(make.text([make.item("a", "AB", "A")]), "mine.jsonl")
    labels = Catalog.at(roots.own).labels(str(path))
    assert (labels.name, labels.version, labels.policy) == ("mine", None, None)
    assert Catalog.at().card(str(path)) is None


@pytest.mark.parametrize("card", ["", "# Just a readme\n", "---\nno: card\n---\n"])
def test_label_file_beside_another_readme_is_a_bare_file(roots: Roots, make: Maker, card: str) -> None:
    path = make.file(make.text([make.item("a", "AB", "A")]), "mine.jsonl")
    path.with_name("README.md").write_text(card, "utf-8")
    assert Catalog.at(roots.own).labels(str(path)).version is None


def test_label_file_that_is_no_released_version_is_a_bare_file(roots: Roots) -> None:
    path = roots.labels("demo") / "draft.jsonl"
    path.write_text((path.with_name("v1.jsonl")).read_text("utf-8"), "utf-8")
    assert Catalog.at().labels(str(path)).version is None


def test_label_file_that_does_not_match_its_card_is_refused(roots: Roots) -> None:
    path = roots.labels("demo") / "v1.jsonl"
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")
    for name in ("demo", str(path)):
        assert "but the card says" in message(ChecksumError, Catalog.at().labels, name)


def test_unknown_label_set_suggests_the_nearest(roots: Roots) -> None:
    roots.labels("graduate-18")
    roots.labels("semif-252")
    find = Catalog.at().labels
    assert message(NotFoundError, find, "gradute-18") == (
        "gradute-18: no label set of this name or path; did you mean graduate-18?"
    )
    assert message(NotFoundError, find, "semif-25@v1").endswith("did you mean semif-252?")
    assert message(NotFoundError, find, "zzz").endswith("; there are graduate-18, semif-252")
    for number in range(9):
        roots.labels(f"more-{number}")
    assert message(NotFoundError, find, "zzz").endswith(
        "there are graduate-18, more-0, more-1, more-2, more-3, more-4, more-5, more-6, ..."
    )


@pytest.mark.usefixtures("roots")
def test_unknown_label_set_where_there_are_none_says_so() -> None:
    assert message(NotFoundError, Catalog.at().labels, "zzz") == "zzz: no label set of this name or path"


def test_unknown_version_names_those_there_are(roots: Roots) -> None:
    roots.labels("demo", versions="v1 v2")
    assert message(NotFoundError, Catalog.at().labels, "demo@v3") == (
        "labels/demo: demo has no version 'v3': it has v1, v2"
    )


def test_version_whose_file_is_gone_is_not_found(roots: Roots) -> None:
    (roots.labels("demo") / "v1.jsonl").unlink()
    assert message(NotFoundError, Catalog.at().labels, "demo").startswith(
        "labels/demo/v1.jsonl: cannot be read"
    )


def test_card_is_found_by_name(roots: Roots) -> None:
    roots.labels("demo", versions="v1 v2")
    card = Catalog.at().card("demo@v1")
    assert card is not None
    assert list(card.versions) == ["v1", "v2"]


# runs


def test_run_is_found_by_name_set_and_path(roots: Roots) -> None:
    path = roots.run("demo/bf16")
    for name in ("bf16", "demo/bf16", "runs/demo/bf16.jsonl", str(path)):
        [[found]] = Catalog.at().resolve([name])
        assert found.path.resolve() == path
        assert found.name == "bf16"
        assert read_run(found).file == "runs/demo/bf16.jsonl"


def test_several_names_stand_in_the_order_asked_for(roots: Roots) -> None:
    for name in ("bf16", "q8", "q4"):
        roots.run(f"demo/{name}")
    assert roots.names("q4", "bf16", "demo/q8", "q4") == [
        (
            "own/runs/demo/q4.jsonl",
            "own/runs/demo/bf16.jsonl",
            "own/runs/demo/q8.jsonl",
            "own/runs/demo/q4.jsonl",
        )
    ]


def test_bare_name_in_several_sets_means_all_of_them(roots: Roots) -> None:
    for place in ("two/bf16", "one/bf16", "one/q4"):
        roots.run(place)
    assert roots.names("bf16") == [("own/runs/one/bf16.jsonl",), ("own/runs/two/bf16.jsonl",)]
    assert roots.names("bf16", "q4") == [("own/runs/one/bf16.jsonl", "own/runs/one/q4.jsonl")]


def test_bare_name_of_several_sets_beside_another_is_ambiguous(roots: Roots) -> None:
    path = roots.run("one/bf16")
    for place in ("two/bf16", "three/q4"):
        roots.run(place)
    for fixed in (str(path), "three/q4"):
        assert message(UsageError, roots.names, fixed, "bf16") == (
            "bf16 is a run of several label sets (one, two); write one/bf16"
        )


def test_bare_name_beside_names_of_one_set_means_the_run_of_that_set(roots: Roots) -> None:
    for place in ("one/bf16", "two/bf16", "two/q4"):
        roots.run(place)
    assert roots.names("two/q4", "bf16") == [("own/runs/two/q4.jsonl", "own/runs/two/bf16.jsonl")]


def test_bare_name_of_one_set_beside_a_path_is_fine(roots: Roots) -> None:
    roots.run("one/bf16")
    roots.run("one/q4")
    assert roots.names("one/bf16", "q4") == [("own/runs/one/bf16.jsonl", "own/runs/one/q4.jsonl")]


def test_own_runs_of_a_name_hide_those_of_shipped_sets(roots: Roots) -> None:
    roots.run("mine/bf16")
    roots.run("demo/bf16", root=roots.shipped)
    assert roots.names("bf16") == [("own/runs/mine/bf16.jsonl",)]
    assert roots.names("demo/bf16") == [("shipped/runs/demo/bf16.jsonl",)]


def test_own_run_comes_before_the_shipped_one(roots: Roots) -> None:
    roots.run("demo/bf16")
    roots.run("demo/bf16", root=roots.shipped)
    roots.run("demo/q4", root=roots.shipped)
    assert roots.names("bf16") == roots.names("demo/bf16") == [("own/runs/demo/bf16.jsonl",)]
    assert roots.names("q4") == [("shipped/runs/demo/q4.jsonl",)]
    listed = Catalog((roots.own, roots.shipped))
    assert [file.path for file in listed.run_files()] == [
        roots.own / "runs/demo/bf16.jsonl",
        roots.shipped / "runs/demo/q4.jsonl",
    ]
    assert [file.name for file in listed.own_run_files()] == ["bf16"]


def test_own_run_can_be_compared_with_a_shipped_one_by_bare_names(roots: Roots) -> None:
    roots.run("demo/mine")
    roots.run("demo/bf16", root=roots.shipped)
    assert roots.names("bf16", "mine") == [("shipped/runs/demo/bf16.jsonl", "own/runs/demo/mine.jsonl")]


def test_run_with_two_suffixes_is_the_same_file_however_it_is_named(roots: Roots) -> None:
    plain = roots.run("demo/bf16")
    plain.with_name("bf16.jsonl.gz").write_bytes(plain.read_bytes())
    assert roots.names("bf16") == roots.names("demo/bf16")
    assert [file.path for file in Catalog((roots.own,)).run_files()] == [plain]


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
def test_compressed_run_is_found_by_name(roots: Roots, suffix: str) -> None:
    plain = roots.run("demo/bf16")
    plain.rename(plain.with_name(f"bf16{suffix}"))
    assert roots.names("bf16") == [(f"own/runs/demo/bf16{suffix}",)]


def test_folder_named_like_a_run_is_none(roots: Roots) -> None:
    (roots.own / "runs" / "demo" / "bf16.jsonl").mkdir(parents=True)
    assert "no run of this name" in message(NotFoundError, roots.names, "bf16")


@pytest.mark.parametrize("name", ["*", "b*", "bf1?", "bf[1]6", "demo/*", "*/bf16"])
def test_name_is_no_pattern(roots: Roots, name: str) -> None:
    roots.run("demo/bf16")
    assert "no run of this name or path" in message(NotFoundError, roots.names, name)


def test_run_with_signs_of_a_pattern_in_its_name_is_found(roots: Roots) -> None:
    roots.run("demo/q4[v2]")
    assert roots.names("q4[v2]") == [("own/runs/demo/q4[v2].jsonl",)]


def test_unknown_run_suggests_the_nearest(roots: Roots) -> None:
    roots.run("demo/bf16")
    roots.run("demo/torch-bf16")
    assert message(NotFoundError, roots.names, "bf17") == (
        "bf17: no run of this name or path; did you mean bf16?"
    )
    assert message(NotFoundError, roots.names, "demo/torch-bf17").endswith(
        "did you mean demo/torch-bf16 or demo/bf16?"
    )
    assert message(NotFoundError, roots.names, "bf16", "zzz", "yyy").splitlines() == [
        "zzz: no run of this name or path; there are bf16, torch-bf16",
        "yyy: no run of this name or path; there are bf16, torch-bf16",
    ]


@pytest.mark.parametrize(
    "name", [pytest.param("x" * 5000, id="too long"), "a\0b", "", "runs/", "/nowhere/at/all", "."]
)
def test_name_that_can_be_no_file_is_not_found(roots: Roots, name: str) -> None:
    roots.run("demo/bf16")
    assert "no run of this name or path" in message(NotFoundError, roots.names, name)


@pytest.mark.parametrize("name", [pytest.param("x" * 5000, id="too long"), "a\0b"])
def test_label_set_name_that_can_be_no_file_is_not_found(roots: Roots, name: str) -> None:
    roots.labels("demo")
    assert "no label set of this name or path" in message(NotFoundError, Catalog.at().labels, name)


def test_path_that_is_gone_is_named_when_it_is_read(roots: Roots) -> None:
    [[found]] = Catalog((roots.own,)).resolve(["gone.jsonl"])
    assert message(NotFoundError, read_run, found) == (
        "gone.jsonl: cannot be read (No such file or directory): check path and permissions"
    )


def test_names_that_no_set_has_together_are_refused(roots: Roots) -> None:
    roots.run("one/bf16")
    roots.run("two/q4")
    assert message(NotFoundError, roots.names, "bf16", "q4") == (
        "no label set has all of the runs bf16, q4: see `evalkit runs list`"
    )


# the label set of a run


def test_labels_for_takes_the_named_set(roots: Roots) -> None:
    roots.labels("demo")
    run = read_run(RunFile(roots.run("demo/bf16", meta={"label_set": {"name": "other"}})))
    assert Catalog.at().labels_for(run, "demo").name == "demo"


def test_labels_for_takes_the_set_and_version_of_the_sidecar(roots: Roots) -> None:
    roots.labels("demo", versions="v1 v2")
    roots.labels("twin", versions="v1")
    for version, expected in (("v1", "v1"), (None, "v2")):
        run = read_run(
            RunFile(roots.run("demo/bf16", meta={"label_set": {"name": "demo", "version": version}}))
        )
        labels = Catalog.at().labels_for(run, None)
        assert (labels.name, labels.version) == ("demo", expected)


def test_labels_for_a_version_that_is_not_there_is_not_found(roots: Roots) -> None:
    roots.labels("demo")
    run = read_run(RunFile(roots.run("demo/bf16", meta={"label_set": {"name": "demo", "version": "v9"}})))
    assert "demo has no version 'v9'" in message(NotFoundError, Catalog.at().labels_for, run, None)


@pytest.mark.parametrize("meta", [None, {}, {"label_set": {}}, {"label_set": {"name": "unknown"}}])
def test_labels_for_a_run_without_a_known_set_is_the_one_that_covers_it(
    roots: Roots, meta: dict[str, Any] | None
) -> None:
    roots.labels("demo", ids="abc")
    roots.labels("other", ids="xyz")
    run = read_run(RunFile(roots.run("demo/bf16", meta=meta)))
    assert Catalog.at().labels_for(run, None).name == "demo"


def test_labels_for_a_run_that_several_sets_cover_names_them(roots: Roots) -> None:
    roots.labels("demo")
    roots.labels("twin")
    run = read_run(RunFile(roots.run("demo/bf16")))
    assert message(NotFoundError, Catalog.at().labels_for, run, None) == (
        "runs/demo/bf16.jsonl: 2 label sets cover the ids of this run (demo, twin): name one with --labels"
    )


def test_labels_for_a_run_that_no_set_covers_says_so(roots: Roots) -> None:
    roots.labels("demo", ids="a")
    run = read_run(RunFile(roots.run("demo/bf16")))
    assert message(NotFoundError, Catalog.at().labels_for, run, None) == (
        "runs/demo/bf16.jsonl: no label set covers the ids of this run: name one with --labels"
    )


def test_labels_for_reads_the_fields_asked_for(roots: Roots, make: Maker) -> None:
    make.label_set(roots.own, "demo", {"v1": [make.item("a", topic="t"), make.item("b")]})
    run = read_run(RunFile(roots.run("demo/bf16")))
    assert "topic" in Catalog.at().labels_for(run, None, ("topic",)).fields
    assert "topic" in Catalog.at().labels_for(run, "demo", ("topic",)).fields
    assert "topic" not in Catalog.at().labels_for(run, None).fields


def test_labels_for_a_damaged_set_is_an_error(roots: Roots) -> None:
    (roots.labels("demo") / "README.md").write_text("# no card\n", "utf-8")
    run = read_run(RunFile(roots.run("demo/bf16", meta={"label_set": {"name": "demo"}})))
    assert "no YAML front matter" in message(InputError, Catalog.at().labels_for, run, None)


def test_covers_needs_every_id(make: Maker) -> None:
    labels = make.labels([make.item("a"), make.item("b")])
    rows = [make.row(name, {"A": 0.9, "B": 0.1}) for name in "abc"]
    assert covers(labels, make.run(rows[:1]))
    assert covers(labels, make.run(rows[:2]))
    assert not covers(labels, make.run(rows))


def test_shown_is_relative_below_the_current_folder(roots: Roots, tmp_path: Path) -> None:
    assert shown(roots.own / "runs" / "x.jsonl") == "runs/x.jsonl"
    assert shown(Path("runs/x.jsonl")) == "runs/x.jsonl"
    assert shown(tmp_path / "x.jsonl") == (tmp_path / "x.jsonl").as_posix()
    assert shown(Path("..") / "x.jsonl") == "../x.jsonl"
