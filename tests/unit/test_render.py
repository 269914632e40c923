"""Pages: text, markdown, HTML, CSV and JSON, with texts from other people in them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from wcwidth import wcswidth

from evalkit.comparing import DiffReport, diff
from evalkit.render import FORMATS, Look, render
from evalkit.render.data import tables_to_csv
from evalkit.render.document import Document, Table
from evalkit.render.escape import markdown, markup, visible
from evalkit.render.numbers import figure, number, p_value, plural, share, signed, with_error
from evalkit.render.page import to_html, to_markdown, to_text
from evalkit.scoring import Options, ScoreReport, score
from tests.conftest import Maker

PAGE = Document(
    "A title",
    ["A sentence that says it all."],
    [
        Table("Plain", ["id", "n"], [["学校-01", "1"], ["1e5", "22"]], note="a note"),
        Table("Folded", ["id"], [["a|b"]], hidden=3, fold=True),
        Table("", ["id"], [["<b>"]], fold=False),
    ],
    ["something odd"],
    ["signature:1"],
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ✓ 学校", "plain ✓ 学校"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\tb\nc\rd", "a\\tb\\nc\\rd"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("\ud83d", "\\ud83d"),
        ("\ufffe\ufeff", "\\ufffe\\ufeff"),
    ],
)
def test_visible_escapes_what_a_terminal_acts_on(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_markdown_escape_leaves_no_markup_link_or_mention() -> None:
    shown = markdown("a|b `c` <img> [x](y) @user #12 https://x.example www.x.example")
    assert not any(sign in shown for sign in ("|", "`", "<", "[", "@", "://", "www."))


def test_markup_escape_closes_no_script() -> None:
    assert markup("</script><!--\"'") == "&lt;/script&gt;&lt;!--&quot;&#x27;"


@pytest.mark.parametrize(
    ("p", "shown"),
    [
        (1.0, "p = 1.00"),
        (0.5, "p = 0.50"),
        (0.0391, "p = 0.039"),
        (0.0042, "p = 0.0042"),
        (1e-300, "p < 0.0001"),
    ],
)
def test_p_value_is_never_zero(p: float, shown: str) -> None:
    assert p_value(p) == shown


def test_numbers_without_a_value_are_a_dash() -> None:
    assert [number(None), signed(None), share(1, 0), figure(None), with_error(None, None)] == ["-"] * 5


def test_figure_without_interval_is_its_value() -> None:
    assert figure({"value": 1.0, "low": None, "high": None}) == "1.0000"
    assert figure({"value": -0.5, "low": -0.75, "high": 0.25}, sign=True) == "-0.5000 [-0.750, +0.250]"


def test_small_mean_keeps_its_digits() -> None:
    assert with_error(0.0025, 0.0001) == "0.002500 ± 0.000100"
    assert with_error(0.25, None) == "0.2500"


def test_plural_takes_an_irregular_form() -> None:
    assert [plural(1, "item"), plural(2, "item"), plural(2, "leaf", "leaves")] == [
        "1 item",
        "2 items",
        "2 leaves",
    ]


def test_text_page_holds_everything_in_order() -> None:
    text = to_text(PAGE, Look())
    places = [
        text.index(part)
        for part in ("A title", "says it all", "Plain", "a note", "and 3 more", "note: ", "signature:1")
    ]
    assert places == sorted(places)
    assert "\x1b" not in text


def test_text_table_columns_line_up_with_wide_characters() -> None:
    lines = to_text(PAGE, Look()).splitlines()
    rows = lines[lines.index("Plain") + 1 :][:4]
    assert len({wcswidth(row) for row in rows}) == 1


def test_text_with_colour_bolds_titles_and_marks_effects() -> None:
    page = Document("T", [], [Table("", ["id", "effect"], [["q", "broken"]], left=2)])
    text = to_text(page, Look(color=True))
    assert text.startswith("\x1b[1mT\x1b[0m")
    assert "\x1b[31mbroken\x1b[0m" in text


@pytest.mark.parametrize("width", [24, 40, 80])
def test_text_is_never_wider_than_the_terminal_and_loses_nothing(width: int) -> None:
    cells = ["学校" * 30, "x" * 100, "two words"]
    page = Document(
        "T" * 10, ["word " * 40], [Table("t", ["one", "two", "three"], [cells], left=3)], ["n " * 60]
    )
    text = to_text(page, Look(width=width))
    assert max(wcswidth(line) for line in text.splitlines()) <= width
    assert text.count("学") == 30
    assert text.count("x") == 100


def test_markdown_page_folds_details_and_escapes_cells() -> None:
    text = to_markdown(PAGE)
    assert "<details><summary>Folded</summary>" in text
    assert "| a&#124;b |" in text
    assert "### Plain" in text
    assert "> note: something odd" in text


def test_html_page_is_balanced_and_shows_cells_literally() -> None:
    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.texts: list[str] = []

        def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
            if tag != "meta":
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

        def handle_data(self, data: str) -> None:
            self.texts.append(data)

    reader = Reader()
    reader.feed(to_html(PAGE))
    assert reader.open == []
    assert "<b>" in reader.texts
    assert "... and 3 more" in reader.texts


def test_csv_of_tables_is_the_first_table() -> None:
    assert list(csv.reader(io.StringIO(tables_to_csv(PAGE.tables)))) == [
        ["id", "n"],
        ["学校-01", "1"],
        ["1e5", "22"],
    ]


ITEMS = [
    Maker.item("q1", "AB", "A", part="x"),
    Maker.item("q2", "AB", "B", part="x"),
    Maker.item("q3", "AB", "A", part="y"),
    Maker.item("q4", "AB", None, part="y"),
]
ROWS = [
    Maker.row("q1", {"A": 0.9, "B": 0.1}),
    Maker.row("q2", {"A": 0.5, "B": 0.5}),
    Maker.row("q3", {"A": 95, "B": 5}),
    Maker.row("q4", choice="A", option_ids=["A", "B"]),
]
OTHER = [
    Maker.row("q1", {"A": 0.2, "B": 0.8}),
    Maker.row("q2", {"A": 0.1, "B": 0.9}),
    Maker.row("q4", {"A": 0.4, "B": 0.6}),
]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["score", "scores", "diff", "diffs", "drift", "nothing"])
def test_every_report_can_be_written_in_every_format(make: Maker, name: str, kind: str) -> None:
    labels = make.labels(ITEMS)
    run, other = make.run(ROWS, "before"), make.run(OTHER, "after")
    empty = make.run([Maker.row("q1", status="error", error="gone")], "empty")
    options = Options(by=["part"])
    makers: dict[str, Callable[[], Sequence[ScoreReport] | Sequence[DiffReport]]] = {
        "score": lambda: [score(labels, run, options)],
        "scores": lambda: [score(labels, run, options), score(labels, empty, options)],
        "diff": lambda: [diff(labels, run, other, options)],
        "diffs": lambda: [diff(labels, run, other, options), diff(labels, run, run, options)],
        "drift": lambda: [diff(None, run, other)],
        "nothing": lambda: [diff(labels, run, empty, options)],
    }
    reports = makers[kind]()
    text = render(reports, name, Look(items=True))
    if name == "github":
        assert text.startswith("::")
        return
    assert "before" in text
    assert ("q1" in text) == (kind != "scores" or name in ("json", "csv", "junit"))
    if name == "json":
        document = json.loads(text)
        assert len(document.get("reports", [document])) == len(reports)
    if name == "csv":
        widths = {len(row) for row in csv.reader(io.StringIO(text))}
        assert len(widths) == 1
    if name == "text" and kind == "nothing":
        assert "Nothing could be compared" in text


def test_text_of_a_drift_report_speaks_of_no_accuracy(make: Maker) -> None:
    text = render([diff(None, make.run(ROWS, "before"), make.run(OTHER, "after"))], "text")
    assert "3 of 3 choices changed" in text
    assert "accuracy" not in text
    assert "before -> after, drift only" in text


def test_text_lists_are_capped_and_say_so(make: Maker) -> None:
    items = [Maker.item(f"q{place}", "AB", "A") for place in range(60)]
    rows = [Maker.row(f"q{place}", {"A": 0.1, "B": 0.9}) for place in range(60)]
    report = score(make.labels(items), make.run(rows))
    assert "... and 10 more" in render([report], "text")
    assert "q59" in render([report], "text", Look(limit=None))


@pytest.mark.parametrize(
    ("items", "broken", "fixed", "said"),
    [
        (40, 4, 0, "Its interval leaves out 0, but rests on 4 flips: too few for an interval."),
        (20, 14, 5, "Its interval leaves out 0: the difference is a borderline one."),
        (40, 3, 1, None),
        (40, 9, 0, None),
    ],
)
def test_interval_that_contradicts_the_exact_test_is_explained(
    make: Maker, items: int, broken: int, fixed: int, said: str | None
) -> None:
    def rows(wrong: range) -> list[dict[str, Any]]:
        right, other = {"A": 0.9, "B": 0.1}, {"A": 0.1, "B": 0.9}
        return [make.row(f"q{item}", other if item in wrong else right) for item in range(items)]

    labels = make.labels([make.item(f"q{item}", "AB", "A") for item in range(items)])
    reference = make.run(rows(range(broken, broken + fixed)), "before")
    candidate = make.run(rows(range(broken)), "after")
    text = render([diff(labels, reference, candidate)], "text")
    assert ("more than chance" in text) is (said is None and broken == 9)
    assert ("leaves out 0" in text) is (said is not None)
    assert said is None or said in text
