"""Damage files for a while: ``python -m tests.fuzz --minutes 60`` (``--atheris`` lets coverage steer)."""

from __future__ import annotations

import argparse
import collections
import random
import resource
import sys
import time
from pathlib import Path

from tests.fuzz.damage import SOUND, damaged
from tests.fuzz.survive import BrokenError, survive


def main() -> int:
    """Run until the time is over; return 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="where files that break go")
    parser.add_argument("--atheris", action="store_true", help="use atheris instead of random damage")
    known = parser.parse_args()
    if known.atheris:
        return _steered()
    rng = random.Random(known.seed)
    codes: collections.Counter[tuple[str, int]] = collections.Counter()
    files = broken = slowest = 0.0
    end = time.monotonic() + 60 * known.minutes
    while time.monotonic() < end:
        kind = rng.choice(list(SOUND))
        data = damaged(rng, SOUND[kind])
        started = time.monotonic()
        try:
            codes.update((kind, code) for code in survive(kind, data))
        except BrokenError as error:
            broken += 1
            known.keep.mkdir(exist_ok=True)
            (known.keep / f"{kind}-{int(files)}").write_bytes(data)
            print(f"{kind}-{int(files)}: {error}", file=sys.stderr)
        slowest = max(slowest, time.monotonic() - started)
        files += 1
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{int(files)} files, {int(broken)} broke; slowest {slowest:.1f} s; peak memory {memory:.0f} MiB")
    for (kind, code), count in sorted(codes.items()):
        print(f"  {kind}: exit code {code}: {count} commands")
    return 1 if broken else 0


def _steered() -> int:
    import atheris

    kinds = list(SOUND)

    def one(data: bytes) -> None:
        if data:
            survive(kinds[data[0] % len(kinds)], data[1:])

    atheris.instrument_all()
    atheris.Setup([sys.argv[0]], one)
    atheris.Fuzz()
    return 0


sys.exit(main())
