"""SARIF 2.1.0: findings for code scanning.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0" (2020).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from evalkit import __version__
from evalkit.jsonl import dumps
from evalkit.render.escape import visible
from evalkit.render.findings import KINDS, Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(findings: Sequence[Finding], *, error: str = "") -> str:
    """Write findings as a SARIF log.

    Args:
        findings: the findings.
        error: why nothing could be judged; the run is then marked as unsuccessful.
    """
    seen: Counter[str] = Counter()
    invocation: dict[str, Any] = {"executionSuccessful": not error}
    if error:
        invocation["toolExecutionNotifications"] = [{"level": "error", "message": {"text": visible(error)}}]
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "evalkit",
                        "version": __version__,
                        "rules": [
                            {"id": kind, "shortDescription": {"text": what}} for kind, what in KINDS.items()
                        ],
                    }
                },
                "invocations": [invocation],
                "results": [_result(finding, seen) for finding in findings],
            }
        ],
    }
    return dumps(document, indent=1) + "\n"


def _result(finding: Finding, seen: Counter[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": list(KINDS).index(finding.kind),
        "level": finding.level,
        "message": {"text": visible(finding.message)},
        "partialFingerprints": {"evalkit/1": _fingerprint(finding, seen)},
    }
    if finding.file:
        place: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
        if finding.line:
            place["region"] = {"startLine": finding.line}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _fingerprint(finding: Finding, seen: Counter[str]) -> str:
    """Name a finding by its kind and the part of its message that stays: the item or the rule."""
    stays = f"{finding.kind}\0{finding.file}\0{finding.message.split(': ')[0]}\0{finding.title}"
    seen[stays] += 1
    return hashlib.sha256(f"{stays}\0{seen[stays]}".encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
