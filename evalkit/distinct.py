"""A cheap proof that ids are distinct, so that only ids that may repeat have to be counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LONGEST = 256
"""Longer ids (in bytes) are not proven."""

_ROWS = 1 << 16  # hashed at a time: their words stay in the cache
_WORD = 8
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def surely_distinct(ids: pa.StringArray) -> bool:
    """Tell whether no two ids are equal; False means that it is not known.

    Args:
        ids: n strings without null.
    """
    keys = _hashes(ids)
    if keys is None:
        return False
    keys.sort()
    return not (keys[1:] == keys[:-1]).any()


def _hashes(ids: pa.StringArray) -> NDArray[np.uint64] | None:
    """Hash every id to 64 bits, equal ids equally; None where an id is too long for that."""
    _, offsets, text = ids.buffers()
    if not len(ids) or text is None:
        return np.zeros(len(ids), dtype=np.uint64)
    bounds = np.frombuffer(offsets, dtype=np.int32)[ids.offset : ids.offset + len(ids) + 1]
    keys = np.empty(len(ids), dtype=np.uint64)
    for first in range(0, len(ids), _ROWS):
        part = bounds[first : first + _ROWS + 1].astype(np.int64)
        lengths = np.diff(part)
        if lengths.max() > LONGEST:
            return None
        octets = np.frombuffer(text, dtype=np.uint8)[part[0] : part[-1]]
        padded = np.concatenate((octets, np.zeros(_WORD, dtype=np.uint8)))
        keys[first : first + _ROWS] = _hashed(padded, part[:-1] - part[0], lengths)
    return keys


def _hashed(
    octets: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint64]:
    words = np.ndarray(len(octets) - _WORD + 1, dtype="<u8", buffer=octets, strides=(1,))
    keys = lengths.astype(np.uint64)
    for done in range(0, int(lengths.max()), _WORD):
        left = lengths - done
        word = words[np.minimum(starts + done, len(words) - 1)]
        beyond = np.clip(_WORD - left, 0, _WORD - 1).astype(np.uint64) * np.uint64(8)
        mixed = (keys ^ (word << beyond)) * _FACTOR
        mixed ^= mixed >> np.uint64(32)
        keys = np.where(left > 0, mixed, keys)
    return keys
