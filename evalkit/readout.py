"""From the listed log-probabilities at one position to a decision: the one read-out rule, ``letters/1``.

An answer position holds a list of likely tokens with their log-probabilities. A token names an option if
its text is the option's name (a letter), with at most one leading space or word-start marker. Tokens that
name the same option are added. The options' shares of what they hold together are the decision; an option
without a measured value is censored: its share is known only as a range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalkit.jsonl import is_number
from evalkit.outcome import Bound, Notice, Outcome, UnusableError, decided
from evalkit.rows import SUM_TOLERANCE

RULE = "letters/1"
"""Name of the read-out of a token list, as it stands in a run's sidecar."""
LIKELIHOOD_RULE = "loglikelihood/1"
"""Name of the read-out of one log-likelihood an option."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of the options by position, as prompts list them."""
MARKERS = (" ", "\u0120", "\u2581")
"""A space, and the word-start markers of byte-level and SentencePiece vocabularies."""
UNDERFLOW = 1e-250
"""Likelihoods below this have too few bits left in a float to be compared."""
NOT_MEASURED = -9999.0
"""Servers write this or less (the smallest float16 or float32, -inf) where they measured nothing."""
SAME_VALUE = 1e-3
"""Two reports of one token's log-probability agree within this."""
NOTHING_LEFT = 1e-6
"""Listed values that add up to 1 within this leave no mass for other tokens."""

_PLACEHOLDER = re.compile(r"token_id:[0-9]{1,18}")
_CONTROL = re.compile(r"<(?!0x)[^<>\s]+>|\[/?[A-Z_]{2,}\]")
_BLANK = "".join(MARKERS) + "\n\r\t\u010a"
_SHOWN_TOKENS = 5


@dataclass(frozen=True)
class Token:
    """One token as a server reports it."""

    text: str
    """Its text, markers and placeholders as sent."""
    value: Any = None
    """Its log-probability or probability as sent, whatever that is."""
    id: int | None = None
    """Its number in the vocabulary, where the server says it."""
    valued: bool = True
    """Whether the server sent a value at all (null is one)."""


@dataclass(frozen=True)
class Position:
    """One generated position."""

    sampled: Token | None
    """The token that was generated."""
    top: tuple[Token, ...]
    """The listed likely tokens, in the server's order."""


@dataclass(frozen=True)
class Asked:
    """What the request says about the lists."""

    entries: int | None = None
    """How many entries a list was to have."""
    top_p: float = 1.0
    """Nucleus sampling; 1 for none."""
    other_cuts: bool = False
    """Whether top-k, min-p or the like also cut the candidates."""
    named_tokens: bool = False
    """Whether the list holds tokens that the request named, not the likeliest."""


@dataclass(frozen=True)
class Listing:
    """The lists of one answer."""

    positions: tuple[Position, ...]
    """The generated positions, in order."""
    probabilities: bool = False
    """Whether the values are probabilities; otherwise log-probabilities."""
    after_sampling: bool = False
    """Whether the values are those after the sampler cut and rescaled the candidates."""
    keyed_by_text: bool = False
    """Whether a list can hold a text only once, so that the server may have merged tokens."""
    asked: Asked = field(default_factory=Asked)
    """What the request says about the lists."""


def read_out(listing: Listing, names: Sequence[str], token_ids: Mapping[int, str] | None = None) -> Outcome:
    """Read a decision from the lists of one answer.

    Args:
        listing: the lists.
        names: the options' names in the answer (letters), in prompt order.
        token_ids: names by token number, where known; an entry that has a number is then read by it.

    Returns:
        The decision, or the reason why there is none. Never a value that was not measured.
    """
    try:
        if not listing.positions:
            raise UnusableError("error", NO_LIST)
        place = _answer_position(listing.positions)
        notices = [Notice("read at a later position than the first, after blank text")] if place else []
        reading = _Reading(listing, listing.positions[place], tuple(names), dict(token_ids or {}))
        return reading.outcome(notices)
    except UnusableError as unusable:
        return Outcome(unusable.status, unusable.reason)


NO_LIST = (
    "no probabilities recorded: the answer has no log-probabilities (request them: logprobs, top_logprobs)"
)


def read_likelihoods(values: Sequence[Any]) -> Outcome:
    """Read a decision from one log-likelihood an option.

    Args:
        values: the log-likelihoods in the order of the options; as numbers, or as text that is one.
    """
    try:
        numbers = [_parsed(value) for value in values]
        measured = {
            place: p for place, number in enumerate(numbers) if (p := _probability(number, False)) is not None
        }
        total = math.fsum(measured.values())
        if total > 1 + SUM_TOLERANCE:
            raise UnusableError(
                "invalid",
                f"exp of the log-likelihoods sums to {total:.4f}, above 1 + {SUM_TOLERANCE:g} "
                "(does one continuation begin with another?)",
            )
        if not measured:
            raise UnusableError("error", "no log-likelihood was measured")
        if total < UNDERFLOW:
            return _relative({place: float(numbers[place]) for place in measured}, len(values))
        left = max(0.0, 1 - total)
        return decided(measured, len(values), Bound(min(left, *measured.values()), left), [])
    except UnusableError as unusable:
        return Outcome(unusable.status, unusable.reason)


def _relative(logs: Mapping[int, float], count: int) -> Outcome:
    """Read log-likelihoods of long continuations, too small for a float, relative to the largest."""
    top = max(logs.values())
    shares = {place: math.exp(log - top) for place, log in logs.items()}
    outcome = decided(shares, count, Bound(min(shares.values()), math.inf), [])
    return replace(outcome, mass=math.exp(top))


def read_answer(text: str, names: Mapping[str, int]) -> Outcome:
    """Take the text of an answer as a choice, without probabilities.

    Args:
        text: the generated text.
        names: what an answer may say, with the option that it means.
    """
    stripped = text.strip()
    said = stripped if stripped in names else re.sub(r"[\s.):]+$", "", stripped.lstrip("("))
    if said not in names:
        shown = repr(stripped if len(stripped) <= 40 else stripped[:37] + "...")
        return Outcome("invalid", f"the answer {shown} names none of the options {', '.join(names)}")
    return Outcome(choice=names[said])


def _parsed(value: Any) -> Any:
    # Some tools save every number as text.
    if isinstance(value, str) and re.fullmatch(
        r"[-+]?(inf(inity)?|nan|[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?)", value.lower()
    ):
        return float(value)
    return value


def _probability(value: object, is_probability: bool) -> float | None:
    """Return a value as a probability; None where it is a stand-in for not measured."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        shown = "null" if value is None else "NaN"
        raise UnusableError("invalid", f"a log-probability is {shown}: the server computed garbage here")
    if value == -math.inf:
        return None
    if not is_number(value):
        raise UnusableError("invalid", f"a log-probability is no number ({str(value)[:40]!r})")
    number = float(value)  # type: ignore[arg-type]
    if is_probability:
        if not 0 <= number <= 1 + SUM_TOLERANCE:
            raise UnusableError("invalid", f"a probability is {number:.4f}: it looks like a logit or percent")
        return number or None
    if number <= NOT_MEASURED:
        return None
    if number > SUM_TOLERANCE:
        raise UnusableError(
            "invalid",
            f"a log-probability of {number:.4f} would be p = {math.exp(min(number, 700.0)):.4f}: "
            "it looks like a logit or a probability",
        )
    return math.exp(number)


def _answer_position(positions: Sequence[Position]) -> int:
    """Return the first position whose token is not blank; the first of all where every one is."""
    for place, position in enumerate(positions):
        text = position.sampled.text if position.sampled else ""
        if not text or text.strip(_BLANK):
            return place
    return 0


class _Reading:
    """The read-out of one position."""

    def __init__(
        self, listing: Listing, position: Position, names: tuple[str, ...], token_ids: dict[int, str]
    ) -> None:
        self.listing, self.position, self.names, self.token_ids = listing, position, names, token_ids
        self.measured: list[tuple[Token, float]] = []
        self.masked: list[Token] = []
        self._collect()
        self.total = math.fsum(p for _, p in self.measured)

    def outcome(self, notices: list[Notice]) -> Outcome:
        self._refuse_bad_lists()
        options = self._options()
        self._refuse_control_token(math.fsum(options.values()))
        if not options:
            listed = ", ".join(repr(token.text) for token, _ in self.measured[:_SHOWN_TOKENS])
            raise UnusableError(
                "missing_option",
                f"none of the options {', '.join(self.names)} is among the {len(self.measured)} listed "
                f"tokens ({listed})",
            )
        notices += self._notices(len(options) < len(self.names))
        return decided(options, len(self.names), self._bound(), notices, self.listing.after_sampling)

    def _value(self, token: Token) -> float | None:
        return _probability(token.value, self.listing.probabilities)

    def _collect(self) -> None:
        """Sort the entries into measured and masked ones, each token once."""
        by_id: dict[int, float | None] = {}
        for token in self.position.top:
            p = self._value(token)
            if token.id is not None and token.id in by_id:
                if not _agree(p, by_id[token.id]):
                    raise UnusableError("invalid", f"token {token.id} has two values in one list")
                continue
            if token.id is not None:
                by_id[token.id] = p
            if p is None:
                self.masked.append(token)
            else:
                self.measured.append((token, p))
        self._add_sampled()

    def _add_sampled(self) -> None:
        """Take the generated token's own value where the list lacks it; it must not contradict the list."""
        token = self.position.sampled
        if token is None or not token.valued:
            return
        p = self._value(token)
        twins = [(other, q) for other, q in self.measured if _same_token(token, other)]
        if p is None or (not twins and any(_same_token(token, other) for other in self.masked)):
            return
        if not twins:
            self.measured.append((token, p))
        elif not any(_agree(p, q) for _, q in twins):
            raise UnusableError(
                "invalid",
                f"the generated token {token.text!r} has {_shown(p)}, but its list says "
                f"{_shown(twins[0][1])}: the list belongs to another position",
            )

    def _refuse_bad_lists(self) -> None:
        sampled = self.position.sampled
        if not self.measured:
            if self.masked or (sampled is not None and sampled.valued):
                raise UnusableError(
                    "error", "no probability recorded: every value is a stand-in for 'not measured' (-9999)"
                )
            raise UnusableError("error", NO_LIST)
        if self.total > 1 + SUM_TOLERANCE:
            raise UnusableError(
                "invalid", f"the listed probabilities sum to {self.total:.4f}, above 1 + {SUM_TOLERANCE:g}"
            )
        if self._by_id:
            return
        if any(_PLACEHOLDER.fullmatch(token.text) for token in self._tokens()):
            raise UnusableError(
                "error",
                "token text not recorded (token_id:N placeholders): name them with --token-id N=LETTER",
            )

    @property
    def _by_id(self) -> bool:
        return set(self.names) <= set(self.token_ids.values())

    def _tokens(self) -> list[Token]:
        return [*(token for token, _ in self.measured), *self.masked]

    def _options(self) -> dict[int, float]:
        """Add up the measured tokens of each option."""
        found: dict[int, float] = {}
        for token, p in self.measured:
            place = self._option(token)
            if place is not None:
                found[place] = found.get(place, 0.0) + p
        if not found:
            self._refuse_vocabulary()
        return found

    def _refuse_vocabulary(self) -> None:
        sampled = self.position.sampled
        full = self.total >= 1 - NOTHING_LEFT
        if full and sampled and not any(_same_token(sampled, token) for token in self._tokens()):
            raise UnusableError(
                "invalid",
                f"the generated token {sampled.text!r} has no value, and the list adds up to "
                f"{self.total:.4f} without any option: at temperature 0 some servers list the first "
                "entries of the vocabulary; record with temperature 1",
            )

    def _option(self, token: Token) -> int | None:
        if self._by_id:
            number = token.id
            if number is None and _PLACEHOLDER.fullmatch(token.text):
                number = int(token.text.partition(":")[2])
            if number is not None:
                name = self.token_ids.get(number)
                return self.names.index(name) if name in self.names else None
        return option_of(token.text, self.names)

    def _refuse_control_token(self, on_options: float) -> None:
        token, p = max(self.measured, key=lambda entry: entry[1])
        if p > on_options and self._option(token) is None and _CONTROL.fullmatch(token.text):
            raise UnusableError(
                "invalid",
                f"the answer position holds a control token ({token.text}, {p:.4f}); the options hold "
                f"{on_options:.2g}: is thinking switched on, or only one token generated?",
            )

    @property
    def _short(self) -> bool:
        entries = self.listing.asked.entries
        return entries is not None and len(self.position.top) < entries

    @property
    def _cut(self) -> bool:
        """Whether sampling cut the candidates before the list was made: it says nothing of the rest."""
        asked = self.listing.asked
        few = asked.entries is None or len(self.measured) < asked.entries
        sampled = asked.top_p < 1 or asked.other_cuts
        return self.listing.after_sampling or (
            self.total >= 1 - NOTHING_LEFT and few and (sampled or (self._short and not self.masked))
        )

    def _bound(self) -> Bound:
        asked = self.listing.asked
        if self._cut:
            # The list holds the kept candidates, rescaled: they hold at least top_p of the mass,
            # and none of those cut off was likelier than the last one kept.
            kept = asked.top_p if asked.top_p < 1 and not asked.other_cuts else 0.0
            last = min(p for _, p in self.measured)
            rest = max(0.0, 1 / kept - self.total) if kept else math.inf
            return Bound(min(last, rest), rest)
        left = max(0.0, 1 - self.total)
        return Bound(min(self._last(), left), left)

    def _last(self) -> float:
        """Return the value that no unlisted token exceeds."""
        listed = [p for token, p in self.measured if token in self.position.top]
        if self._short or self.listing.asked.named_tokens or len(listed) < 2:
            return math.inf
        if listed == sorted(listed, reverse=True):
            return listed[-1]
        # Some servers put the generated token first, however unlikely, and then the likeliest ones.
        return min(listed[1:])

    def _notices(self, incomplete: bool) -> list[Notice]:
        asked, found = self.listing.asked, []
        entries = len(self.position.top)
        if self.listing.after_sampling:
            found.append(Notice("probabilities after sampling, not the model's own"))
        elif self._cut and (incomplete or asked.top_p < 1 or asked.other_cuts):
            cause = f"top_p {asked.top_p:g}, " if asked.top_p < 1 else ""
            found.append(
                Notice(
                    "the list was cut by sampling: what was cut off is unknown",
                    f"{cause}{entries} of {asked.entries} entries",
                )
            )
        elif asked.entries == 0 and not entries:
            found.append(Notice("top_logprobs was 0: only the generated token has a value"))
        elif self._short and self.listing.keyed_by_text:
            found.append(
                Notice(
                    "entries with the same text may have been merged by the server",
                    f"{entries} entries for {asked.entries} requested",
                )
            )
        elif self._short:
            found.append(
                Notice(
                    "the list is shorter than requested", f"{entries} entries for {asked.entries} requested"
                )
            )
        if incomplete and self.masked and not self._cut and self.total >= 1 - NOTHING_LEFT:
            found.append(
                Notice(
                    "a probability of 1 with only stand-ins for 'not measured' beside it: that is what "
                    "temperature 0 leaves over, no ordinary p = 1"
                )
            )
        return found


def option_of(text: str, names: Sequence[str]) -> int | None:
    """Return which option a token's text names: its name, with one optional leading space or marker."""
    # Names may come as one text of letters, in which "AB" or "" would be found too.
    known = tuple(names)
    name = text[1:] if text not in known and text.startswith(MARKERS) else text
    return known.index(name) if name in known else None


def _same_token(one: Token, other: Token) -> bool:
    if one.id is not None and other.id is not None:
        return one.id == other.id
    return one.text == other.text


def _agree(one: float | None, other: float | None) -> bool:
    if not one or not other:
        return one == other
    return abs(math.log(one) - math.log(other)) <= SAME_VALUE


def _shown(p: float) -> str:
    return f"{math.log(p):.4f} (p = {p:.4f})"
