"""How far a recording is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

from evalkit.record.progress import Bar, Lines, Pace, Silent, progress_on


class Clock:
    """A clock that goes as far as a test wants."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_lines_come_now_and_then_and_at_the_end() -> None:
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, every=10, clock=clock)
    lines.begin("run", 100, 40)
    for _ in range(30):
        clock.now += 0.5
        lines.step(failed=False)
    lines.step(failed=True)
    lines.end()
    assert stream.getvalue().splitlines() == [
        "run: 60 of 100 done, 0 failed, 2.0 decisions/s, 0:00:20 left",
        "run: 71 of 100 done, 1 failed, 2.1 decisions/s, 0:00:14 left",
    ]


def test_lines_say_nothing_twice_and_nothing_of_nothing() -> None:
    clock, stream = Clock(), io.StringIO()
    lines = Lines(stream, every=0, clock=clock)
    lines.begin("run", 1, 0)
    lines.end()
    assert stream.getvalue() == ""
    lines.step(failed=False)
    lines.end()
    assert len(stream.getvalue().splitlines()) == 1


def test_pace_without_time_or_decisions_has_no_end_in_sight() -> None:
    assert (Pace(10, 0, Clock()).rate, Pace(10, 0, Clock()).remaining) == (0, "-")


def test_pace_counts_hours() -> None:
    clock = Clock()
    pace = Pace(7202, 0, clock)
    clock.now += 1
    pace.step(False)
    assert pace.remaining == "2:00:01"


def test_bar_shows_counts_rate_and_rest_on_a_terminal() -> None:
    stream = Terminal()
    bar = progress_on(stream)
    assert isinstance(bar, Bar)
    bar.begin("[run]", 3, 1)
    bar.step(failed=True)
    bar.end()
    shown = stream.getvalue()
    assert "[run]" in shown
    assert "1 failed" in shown
    assert "2/3" in shown


def test_bar_that_never_began_ends_quietly() -> None:
    stream = Terminal()
    Bar(stream).end()
    assert stream.getvalue() == ""


def test_progress_without_a_terminal_is_lines_and_can_be_silent() -> None:
    stream = io.StringIO()
    assert isinstance(progress_on(stream), Lines)
    silent = progress_on(stream, quiet=True)
    assert isinstance(silent, Silent)
    silent.begin("run", 1, 0)
    silent.step(failed=False)
    silent.end()
    assert stream.getvalue() == ""
