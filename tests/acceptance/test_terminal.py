"""evalkit in a terminal, a pipe, a log and a file: exit codes, width, colours, encodings, hostile texts."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.conftest import CASES, PROGRAM, environment
from tests.acceptance.reading import (
    ACTING,
    blocks,
    html_texts,
    is_table,
    markdown_tables,
    matched_table,
    squeezed,
    unstyled,
    width,
)

if TYPE_CHECKING:
    from tests.acceptance.conftest import Evalkit

PLAIN = CASES / "64-errors-leave-the-denominator"
SCORE = "score run.jsonl --labels labels.jsonl"
FORMATS = ("text", "json", "markdown", "csv", "html")


def written(folder: Path, name: str, records: list[dict[str, Any]]) -> None:
    """Write a JSON Lines file, everything beyond ASCII escaped."""
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


# --- exit codes ------------------------------------------------------------------------------------------


def test_exit_code_wrong_and_failed_items_is_0_and_they_are_counted(evalkit: Evalkit) -> None:
    ran = evalkit(SCORE, PLAIN)
    assert (ran.code, ran.stderr) == (0, "")
    assert "6 error" in ran.stdout
    assert "content_filter: blocked" in ran.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        f"{SCORE} --no-such-option",
        f"{SCORE} --format yaml",
        f"{SCORE} --resamples 5",
        f"{SCORE} --resamples many",
        f"{SCORE} --only part",
        f"{SCORE} --by colour",
        f"{SCORE} --policy B",
        f"{SCORE} --policy B@90=drop",
        f"{SCORE} --output labels.jsonl/report.txt",
        "score",
        "diff run.jsonl",
        "scor run.jsonl",
        "labels",
        "labels no-such-command",
        "",
    ],
)
def test_exit_code_usage_is_2(evalkit: Evalkit, arguments: str) -> None:
    ran = evalkit(arguments, PLAIN)
    assert ran.code == 2
    assert ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ("score nowhere.jsonl --labels labels.jsonl", "nowhere.jsonl"),
        ("score nowhere --labels labels.jsonl", "nowhere"),
        ("score run.jsonl --labels nowhere.jsonl", "nowhere.jsonl"),
        ("score run.jsonl --labels nowhere@v1", "nowhere@v1"),
        ("score run.jsonl --labels semif-252@v99", "v99"),
        ("score run.jsonl --root nowhere", "nowhere"),
        ("diff nowhere.jsonl run.jsonl --labels labels.jsonl", "nowhere.jsonl"),
        ("diff run.jsonl nowhere.jsonl --labels labels.jsonl", "nowhere.jsonl"),
        ("labels validate nowhere.jsonl", "nowhere.jsonl"),
        ("labels show nowhere", "nowhere"),
        ("runs validate nowhere.jsonl", "nowhere.jsonl"),
        ("runs show nowhere", "nowhere"),
    ],
)
def test_exit_code_missing_file_is_3_and_named(evalkit: Evalkit, arguments: str, missing: str) -> None:
    ran = evalkit(arguments, PLAIN)
    assert (ran.code, ran.stdout) == (3, "")
    assert missing in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_exit_code_damaged_run_is_3(evalkit: Evalkit) -> None:
    ran = evalkit(SCORE, CASES / "34-torn-last-line")
    assert (ran.code, ran.stdout) == (3, "")


def test_exit_code_invalid_decisions_is_3_only_when_strict(evalkit: Evalkit) -> None:
    folder = CASES / "61-percent-and-comma-values"
    assert evalkit(SCORE, folder).code == 0
    ran = evalkit(f"{SCORE} --strict", folder)
    assert (ran.code, ran.stdout) == (3, "")
    assert [line.split(": ")[1] for line in ran.stderr.splitlines()] == [f"run.jsonl:{n}" for n in (1, 2, 3)]


def sabotaged(folder: Path, error: str) -> dict[str, str]:
    """Return an environment in which scoring raises an error."""
    (folder / "sitecustomize.py").write_text(
        f"import evalkit.scoring\ndef broken(*_):\n    raise {error}\nevalkit.scoring.align = broken\n"
    )
    return {"PYTHONPATH": str(folder)}


def test_exit_code_internal_error_is_4_in_one_line(evalkit: Evalkit, tmp_path: Path) -> None:
    environ = sabotaged(tmp_path, "RuntimeError('first line\\nsecond \\x1b[2J line')")
    ran = evalkit(SCORE, PLAIN, environ)
    assert (ran.code, ran.stdout) == (4, "")
    (line,) = ran.stderr.splitlines()
    assert "internal error: RuntimeError: first line" in line
    assert "--debug" in line
    debugged = evalkit(f"--debug {SCORE}", PLAIN, environ)
    assert debugged.code == 4
    assert "Traceback (most recent call last)" in debugged.stderr


def test_exit_code_interrupted_is_130(evalkit: Evalkit, tmp_path: Path) -> None:
    ran = evalkit(SCORE, PLAIN, sabotaged(tmp_path, "KeyboardInterrupt"))
    assert (ran.code, ran.stdout) == (130, "")
    assert "Traceback" not in ran.stderr


def test_exit_codes_where_several_apply_usage_comes_first(evalkit: Evalkit) -> None:
    assert evalkit("score nowhere.jsonl --no-such-option", PLAIN).code == 2
    damaged = CASES / "34-torn-last-line"
    assert evalkit(f"{SCORE} --policy B@90=drop", damaged).code == 2
    assert evalkit("score run.jsonl --labels nowhere.jsonl", damaged).code == 3


def test_exit_codes_are_in_the_help(evalkit: Evalkit) -> None:
    ran = evalkit("--help", PLAIN)
    assert ran.code == 0
    for text in ("0 done", "1 the gate failed", "2 usage", "3 invalid input", "4 internal error"):
        assert text in " ".join(ran.stdout.split())


# --- logs and files --------------------------------------------------------------------------------------

LONG = "an-id-of-120-characters-" + "0123456789abcdef" * 6


def long_ids(folder: Path) -> Path:
    """Write a label set and a run whose ids are longer than a terminal is wide."""
    options = [{"id": "A"}, {"id": "B"}]
    written(folder, "labels.jsonl", [{"id": LONG, "options": options, "label": "A"}])
    written(folder, "run.jsonl", [{"id": LONG, "option_ids": ["A", "B"], "probabilities": [0.1, 0.9]}])
    return folder


@pytest.mark.parametrize(
    "environ",
    [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"GITHUB_ACTIONS": "true"}, {"COLUMNS": "20"}],
    ids=["plain", "NO_COLOR and FORCE_COLOR", "CI", "COLUMNS"],
)
def test_log_long_id_is_whole_and_without_colours(
    evalkit: Evalkit, tmp_path: Path, environ: dict[str, str]
) -> None:
    assert len(LONG) == 120
    folder = long_ids(tmp_path)
    for command in (SCORE, f"{SCORE} --items", "diff run.jsonl run.jsonl --labels labels.jsonl", "--help"):
        ran = evalkit(command, folder, environ)
        assert (ran.code, ran.stderr) == (0, "")
        assert b"\x1b" not in ran.out
        assert LONG in ran.stdout or not command.startswith("score")


@pytest.mark.parametrize(
    "environ",
    [{"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"GITHUB_ACTIONS": "true"}],
    ids=["NO_COLOR and FORCE_COLOR", "CI"],
)
def test_log_error_messages_have_no_colours(evalkit: Evalkit, environ: dict[str, str]) -> None:
    for command in ("score --no-such-option", "score nowhere", "scor"):
        ran = evalkit(command, PLAIN, environ)
        assert ran.code != 0
        assert b"\x1b" not in ran.out + ran.err


def test_json_stands_alone_on_stdout(evalkit: Evalkit) -> None:
    folder = CASES / "42-truncated-and-mislabelled-gzip"
    ran = evalkit(f"{SCORE} --format json", PLAIN)
    assert ran.json()["schema"] == "evalkit.score/1"
    ran = evalkit("score nowhere --format json", PLAIN)
    assert (ran.code, ran.stdout) == (3, "")
    ran = evalkit("labels validate plain_named_gz.jsonl.gz", folder)
    assert "read as plain text" in ran.stderr
    assert "read as plain text" not in ran.stdout


# --- pipes -----------------------------------------------------------------------------------------------


def many(folder: Path, size: int = 5000) -> Path:
    """Write a run of many wrong items, far more than a pipe holds."""
    options = [{"id": "A"}, {"id": "B"}]
    ids = [f"q{number:05}" for number in range(size)]
    written(folder, "labels.jsonl", [{"id": name, "options": options, "label": "A"} for name in ids])
    rows = [{"id": name, "option_ids": ["A", "B"], "probabilities": [0.1, 0.9]} for name in ids]
    written(folder, "run.jsonl", rows)
    return folder


def first_line(args: list[str], cwd: Path, lines: int = 1) -> tuple[int, bytes]:
    """Run evalkit as ``evalkit ... | head -1`` does, and return exit code and standard error."""
    with subprocess.Popen(
        [PROGRAM, *args],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        messages = process.stderr.read()
    return process.returncode, messages


@pytest.mark.parametrize("name", FORMATS)
def test_pipe_reader_that_leaves_is_no_error(tmp_path: Path, name: str) -> None:
    folder = many(tmp_path)
    code, messages = first_line([*SCORE.split(), "--items", "--all", "--format", name], folder)
    assert messages == b""
    assert code in (0, 128 + signal.SIGPIPE)


def test_pipe_reader_that_never_reads_is_no_error(tmp_path: Path) -> None:
    folder = many(tmp_path, 100)
    for args in (SCORE.split(), ["--help"], ["runs", "list"], ["labels", "list"], ["--version"]):
        code, messages = first_line(args, folder, lines=0)
        assert messages == b""
        assert code in (0, 128 + signal.SIGPIPE)


def test_pipe_files_asked_for_are_complete(tmp_path: Path) -> None:
    folder = many(tmp_path)
    code, messages = first_line([*SCORE.split(), "--format", "json", "-o", "report.json"], folder, lines=0)
    assert (code, messages) == (0, b"")
    assert len(json.loads((folder / "report.json").read_bytes())["items"]) == 5000


# --- encodings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "gbk", "utf-8"])
@pytest.mark.parametrize("name", FORMATS)
def test_encoding_of_stdout_stops_no_format(evalkit: Evalkit, encoding: str, name: str) -> None:
    folder = CASES / "96-stdout-that-cannot-encode"
    environ = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": encoding}
    ran = evalkit(f"{SCORE} --format {name}", folder, environ)
    assert (ran.code, ran.err) == (0, b"")
    seen = ran.out.decode(encoding)
    if name == "json":
        assert json.loads(seen)["items"][0]["id"] == "学校-01"
    else:
        escaped = r"\u5b66\u6821-01"
        assert ("学校-01" if encoding in ("gbk", "utf-8") else escaped) in seen


def test_encoding_of_stderr_stops_no_message(evalkit: Evalkit, tmp_path: Path) -> None:
    (tmp_path / "学校.jsonl").write_text("{", "utf-8")
    environ = {"PYTHONUTF8": "0", "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"}
    ran = evalkit(["score", "学校.jsonl", "--labels", "学校.jsonl"], tmp_path, environ)
    assert (ran.code, ran.stdout) == (3, "")
    assert r"\u5b66\u6821.jsonl:1: " in ran.err.decode("ascii")


# --- a terminal ------------------------------------------------------------------------------------------


def in_terminal(
    args: list[str], cwd: Path, columns: int, extra: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run evalkit in a pseudo terminal, and return exit code and everything it shows."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [PROGRAM, *args],
        cwd=cwd,
        env=environment({"TERM": "xterm-256color", **(extra or {})}),
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as process:
        os.close(follower)
        shown = bytearray()
        while data := _read(leader):
            shown += data
        code = process.wait()
    os.close(leader)
    return code, shown.decode("utf-8").replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says so when the last writer is gone.
        return b""


def assert_same_page(shown: str, wide: str, markdown: str) -> None:
    """Check that a narrow page says all that the wide one says, every cell in its column."""
    tables = iter(markdown_tables(markdown))
    assert "\n\n\n" not in unstyled(shown)
    narrow, full = blocks(unstyled(shown)), blocks(wide)
    assert len(narrow) == len(full)
    for got, wanted in zip(narrow, full, strict=True):
        if is_table(wanted):
            grid = next(tables)
            assert squeezed(*matched_table(got, grid)) == squeezed(*matched_table(wanted, grid))
        else:
            assert squeezed(*got) == squeezed(*wanted)
    assert next(tables, None) is None


PAGES = [
    ["score", "bf16"],
    ["score", "bf16", "q8", "q4"],
    ["score", "vllm-awq", "--items"],
    ["score", "semif-252/llamacpp-q4_k_m"],
    ["diff", "bf16", "q4"],
    ["diff", "bf16", "q8", "q4"],
    ["diff", "vllm-awq", "llamacpp-q4_k_m"],
    ["diff", "bf16", "q4", "--no-labels"],
    ["labels", "list"],
    ["labels", "show", "semif-252"],
    ["labels", "show", "graduate-18@v1"],
    ["labels", "diff", "graduate-18@v1", "graduate-18@v2"],
    ["runs", "list"],
    ["runs", "show", "semif-252/q8"],
]


@pytest.mark.parametrize("args", PAGES, ids=" ".join)
def test_terminal_of_80_columns_shows_every_cell(evalkit: Evalkit, tmp_path: Path, args: list[str]) -> None:
    code, shown = in_terminal(args, tmp_path, 80)
    assert code == 0
    assert [line for line in shown.splitlines() if width(line) > 80] == []
    wide = evalkit(args, tmp_path)
    markdown = evalkit([*args, "--format", "markdown"], tmp_path)
    assert_same_page(shown, wide.stdout, markdown.stdout)


def test_terminal_of_80_columns_breaks_no_id_in_two(evalkit: Evalkit, tmp_path: Path) -> None:
    """An id that is broken over two lines cannot be copied."""
    report = evalkit(["diff", "bf16", "q4", "--format", "json"], tmp_path).json()
    shown = unstyled(in_terminal(["diff", "bf16", "q4"], tmp_path, 80)[1])
    assert [record["id"] for record in report["changed"] if f"{record['id']}  " not in shown] == []


def test_terminal_of_80_columns_holds_help_and_messages(tmp_path: Path) -> None:
    for args in (["--help"], ["score", "--help"], ["diff", "--help"], ["labels", "--help"], ["score", "bf1"]):
        _, shown = in_terminal(args, tmp_path, 80)
        assert shown
        assert [line for line in shown.splitlines() if width(line) > 80] == []


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_terminal_wide_characters_keep_their_columns(evalkit: Evalkit, columns: int) -> None:
    folder = CASES / "90-cjk-width"
    args = [*SCORE.split(), "--items"]
    code, shown = in_terminal(args, folder, columns)
    assert code == 0
    assert [line for line in shown.splitlines() if width(line) > columns] == []
    wide, markdown = evalkit(args, folder), evalkit([*args, "--format", "markdown"], folder)
    assert_same_page(shown, wide.stdout, markdown.stdout)
    assert "学校-01" in shown


def test_terminal_long_names_fit_too(evalkit: Evalkit, tmp_path: Path) -> None:
    folder = long_ids(tmp_path)
    name = "a-run-with-a-name-that-is-much-longer-than-a-column-of-a-table-and-then-longer-still"
    (folder / f"{name}.jsonl").write_bytes((folder / "run.jsonl").read_bytes())
    args = ["diff", "run.jsonl", f"{name}.jsonl", f"{name}.jsonl", "--labels", "labels.jsonl"]
    for command in (args, ["score", f"{name}.jsonl", "--labels", "labels.jsonl", "--items"]):
        code, shown = in_terminal(command, folder, 80)
        assert code == 0
        assert [line for line in shown.splitlines() if width(line) > 80] == []
        wide, markdown = evalkit(command, folder), evalkit([*command, "--format", "markdown"], folder)
        assert_same_page(shown, wide.stdout, markdown.stdout)


def test_terminal_has_colours_unless_unwanted(tmp_path: Path) -> None:
    args = ["diff", "bf16", "q8"]
    assert "\x1b[" in in_terminal(args, tmp_path, 80)[1]
    plain = in_terminal(args, tmp_path, 80, {"NO_COLOR": "1"})[1]
    assert "\x1b" not in plain
    assert "\x1b" not in in_terminal([*args, "--no-color"], tmp_path, 80)[1]
    assert unstyled(in_terminal(args, tmp_path, 80)[1]) == plain
    assert "\x1b" not in in_terminal(args, tmp_path, 80, {"TERM": "dumb"})[1]


# --- hostile texts ---------------------------------------------------------------------------------------

HOSTILE = [
    "\x1b]52;c;QQ==\x07清", "\x1b[2J\x1b[1A通过", "失败\r通过", "\x9b31m红", "\u202e文反", "a\u2066b\u2069",
    "第一行\n第二行", "tab\tstop", "line\u2028separator", "next\x85line", "nul\x00", "delete\x7f",
    "\ufeffbom", "甲|乙", "甲\\|乙", "尾\\", "`x|y`", "```", "**粗** _斜_ ~~删~~", "![x](y)",
    "[链](http://example.invalid)", "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>",
    "<!-- -->", "</details>", "<b>q</b>", "https://example.invalid/x", "www.example.invalid",
    "me@example.invalid", "&lt;b&gt; &amp;", "&#42;x&#42;", "- a", "1. b", "# c", "> d", "---", "===",
    "|---|", "evalkit:0.1.0|labels",
]  # fmt: skip
"""Texts that a terminal, a markdown renderer or a browser would act on, were they not made harmless."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose ids, options, families, errors and notes are all hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    options = ["A|\x1b[31m", "<b>B</b>\u202e"]
    items, rows, other = [], [], []
    for place, text in enumerate(HOSTILE):
        items.append(
            {
                "id": text,
                "options": [{"id": option, "description": text} for option in options],
                "label": options[0],
                "evidence": text,
                "family": text,
                "part": "p|\x1b[2J",
            }
        )
        rows.append({"id": text, "option_ids": options, "probabilities": [0.1, 0.9]})
        other.append({"id": text, "option_ids": options, "probabilities": [0.9 if place % 2 else 0.2, 0.1]})
    items.append(items[0] | {"id": "failed"})
    rows.append({"id": "failed", "status": "error", "error": "503 \x1b[2J<script>|\n\u202e"})
    written(folder, "labels.jsonl", items)
    written(folder, "run.jsonl", rows)
    written(folder, "other.jsonl", other)
    for name in ("run", "other"):
        meta = {"note": "read \x1b]0;x\x07 <script>|\n", "recorded": {"options": {"top_p": f"{name}\x1b[2J"}}}
        (folder / f"{name}.meta.json").write_text(json.dumps(meta), "utf-8")
    return folder


HOSTILE_COMMANDS = [
    [*SCORE.split(), "--items", "--policy", "A|\x1b[31m@0.5=drop|\x1b[2J"],
    ["diff", "run.jsonl", "other.jsonl", "--labels", "labels.jsonl"],
    ["labels", "show", "labels.jsonl"],
    ["labels", "lint", "labels.jsonl"],
    ["runs", "show", "run.jsonl"],
]


@pytest.mark.parametrize("args", HOSTILE_COMMANDS, ids=lambda args: args[0])
@pytest.mark.parametrize("name", FORMATS)
def test_hostile_texts_act_in_no_format(evalkit: Evalkit, hostile: Path, args: list[str], name: str) -> None:
    ran = evalkit([*args, "--format", name], hostile)
    assert (ran.code, ran.stderr) == (0, "")
    assert ACTING.findall(ran.stdout) == []
    if name == "markdown":
        for table in markdown_tables(ran.stdout):
            assert len({len(row) for row in table.rows}) == 1
    elif name == "html":
        assert html_texts(ran.stdout)
        assert "</script" not in ran.stdout
        assert "<!--" not in ran.stdout
    elif name == "csv":
        assert len({len(row) for row in csv.reader(io.StringIO(ran.stdout))}) == 1
    elif name == "json":
        ran.json()


def escaped(text: str) -> str:
    """Write acting characters as the pages do: as the escape that Python and JSON would use."""
    short = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
    return ACTING.sub(
        lambda found: (
            short.get(found[0])
            or (f"\\x{ord(found[0]):02x}" if ord(found[0]) < 0x100 else f"\\u{ord(found[0]):04x}")
        ),
        text.replace("\n", "\\n"),
    )


def test_hostile_ids_are_readable_in_every_format(evalkit: Evalkit, hostile: Path) -> None:
    ids = {escaped(text) for text in HOSTILE}
    items = [*SCORE.split(), "--items"]
    pages = {name: evalkit([*items, "--format", name], hostile).stdout for name in FORMATS}
    markdown = {cell for table in markdown_tables(pages["markdown"]) for row in table.rows for cell in row}
    rows = list(csv.reader(io.StringIO(pages["csv"])))
    assert ids <= markdown
    assert ids <= html_texts(pages["html"])
    assert ids <= {cell for row in rows for cell in row}
    assert set(HOSTILE) <= {item["id"] for item in json.loads(pages["json"])["items"]}
    assert [name for name in ids if name not in pages["text"]] == []


@pytest.mark.parametrize("columns", [50, 80])
@pytest.mark.parametrize("args", HOSTILE_COMMANDS[:2], ids=lambda args: args[0])
def test_hostile_texts_do_nothing_to_a_terminal(
    evalkit: Evalkit, hostile: Path, args: list[str], columns: int
) -> None:
    code, shown = in_terminal(args, hostile, columns)
    assert code == 0
    assert ACTING.findall(unstyled(shown)) == []
    assert [line for line in shown.splitlines() if width(line) > columns] == []
    wide, markdown = evalkit(args, hostile), evalkit([*args, "--format", "markdown"], hostile)
    assert_same_page(shown, wide.stdout, markdown.stdout)


def test_hostile_texts_in_an_error_message_take_one_line_each(evalkit: Evalkit, tmp_path: Path) -> None:
    options = [{"id": "A"}, {"id": "B"}]
    ids = ["q1\nevalkit: all fine", "q2\x1b[2J", "q3\u2028x", "q4\rOK"]
    written(tmp_path, "labels.jsonl", [{"id": name, "options": options, "label": "\x1bZ\n"} for name in ids])
    ran = evalkit("labels validate labels.jsonl", tmp_path)
    assert ran.code == 3
    assert ACTING.findall(ran.stderr) == []
    lines = ran.stderr.splitlines()
    assert len(lines) == len(ids)
    for place, (line, name) in enumerate(zip(lines, ids, strict=True), 1):
        assert f"labels.jsonl:{place}: " in line
        assert escaped(name) in line


def test_hostile_arguments_are_written_as_escapes(evalkit: Evalkit, tmp_path: Path) -> None:
    for args in (
        ["score", "no\x1b[2Jne"],
        ["score", "x", "--policy", "\x1b[2J"],
        ["sc\x1b[2J"],
        ["score", "--\x1b"],
    ):
        ran = evalkit(args, tmp_path)
        assert ran.code in (2, 3)
        assert ACTING.findall(ran.stderr) == []
