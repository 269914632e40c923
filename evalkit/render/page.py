"""Documents as pages: plain text for terminals and logs, GitHub markdown, self-contained HTML."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.render import Look
from evalkit.render.document import Document, Table
from evalkit.render.escape import markdown, markup, visible

_BOLD, _RED, _GREEN, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"
_COLORED = {"broken": _RED, "fixed": _GREEN, "wrong to wrong": _YELLOW, "FAIL": _RED, "PASS": _GREEN}
_GAP = 2
_NARROWEST = 6


def to_text(document: Document, look: Look) -> str:
    """Write a document as text: tables by tabulate, as wide as the terminal allows."""
    parts = [_title(document.title, look)]
    parts.append("\n".join(_wrapped(visible(sentence), look.width) for sentence in document.summary))
    parts += [_text_table(table, look) for table in document.tables]
    if document.notices:
        lines = [_wrapped(f"note: {visible(notice)}", look.width) for notice in document.notices]
        parts.append("\n".join(lines))
    if document.signatures:
        parts.append("\n".join(_wrapped(visible(line), look.width) for line in document.signatures))
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(text: str, look: Look) -> str:
    lines = _wrapped(visible(text), look.width).split("\n")
    return "\n".join(f"{_BOLD}{line}{_PLAIN}" if look.color and line else line for line in lines)


def _text_table(table: Table, look: Look) -> str:
    import tabulate

    tabulate.MIN_PADDING = 0  # two more columns a heading are too much on 80
    header = [visible(cell) for cell in table.header]
    rows = [[visible(cell) for cell in row] for row in table.rows]
    if look.width is not None:
        header, *rows = _fitted(header, rows, look.width)
    if look.color:
        rows = [
            [f"{_COLORED[cell]}{cell}{_PLAIN}" if cell in _COLORED else cell for cell in row] for row in rows
        ]
    align = ["left" if place < table.left else "right" for place in range(len(header))]
    body = tabulate.tabulate(rows, header, tablefmt="simple", colalign=align, disable_numparse=True)
    lines = [line.rstrip() for line in body.splitlines()]
    if table.hidden:
        lines.append(f"... and {table.hidden} more (see --format csv or json, or --all)")
    if table.note:
        lines.append(_wrapped(visible(table.note), look.width))
    return "\n".join([_title(table.title, look), *lines] if table.title else lines)


def _fitted(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Break long cells over several lines until the table is as narrow as the terminal.

    Headings give way first, down to their longest word; then the widest columns.
    """
    natural = [_widest(column) for column in zip(header, *rows, strict=True)]
    room = width - _GAP * (len(natural) - 1)
    tight = [
        max(_widest(column), _widest(title.split()))
        for title, column in zip(
            header, [[row[place] for row in rows] for place in range(len(header))], strict=True
        )
    ]
    widths = natural if sum(natural) <= room else tight
    words = [
        min(width, _widest([word for cell in column for word in cell.split()]))
        for width, column in zip(widths, zip(header, *rows, strict=True), strict=True)
    ]
    for floors in (words, [_NARROWEST] * len(widths)):
        widths = _narrowed(widths, [max(floor, _NARROWEST) for floor in floors], room)
    return [
        ["\n".join(_broken(cell, limit)) for cell, limit in zip(row, widths, strict=True)]
        for row in (header, *rows)
    ]


def _narrowed(widths: Sequence[int], floors: Sequence[int], room: int) -> list[int]:
    """Take columns off the widest that may still give way, until the table fits or none may."""
    narrowed = list(widths)
    while sum(narrowed) > room:
        loose = [place for place, width in enumerate(narrowed) if width > floors[place]]
        if not loose:
            break
        narrowed[max(loose, key=lambda place: narrowed[place])] -= 1
    return narrowed


def _widest(cells: Sequence[str]) -> int:
    from wcwidth import wcswidth

    return max((wcswidth(cell) for cell in cells), default=0)


def _broken(text: str, width: int) -> list[str]:
    """Break text into lines of at most a display width, at spaces where there are any."""
    from wcwidth import wcswidth, wrap

    if wcswidth(text) <= width:
        return [text]
    return list(wrap(text, width, break_on_hyphens=False)) or [text]


def _wrapped(text: str, width: int | None) -> str:
    return text if width is None else "\n".join(_broken(text, width))


def to_markdown(document: Document) -> str:
    """Write a document as GitHub markdown, details in folded sections."""
    parts = [f"## {markdown(document.title)}", "\n\n".join(markdown(line) for line in document.summary)]
    parts += [_markdown_table(table) for table in document.tables]
    if document.notices:
        parts.append(
            "\n".join(f"> note: {markdown(notice)}\n>" for notice in document.notices).removesuffix("\n>")
        )
    parts += [f"<sub>{markdown(line)}</sub>" for line in document.signatures]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(table: Table) -> str:
    lines = [
        "| " + " | ".join(markdown(cell) for cell in table.header) + " |",
        "|" + "|".join("---" if place < table.left else "---:" for place in range(len(table.header))) + "|",
        *("| " + " | ".join(markdown(cell) for cell in row) + " |" for row in table.rows),
    ]
    after = [f"... and {table.hidden} more"] if table.hidden else []
    after += [markdown(table.note)] if table.note else []
    body = "\n\n".join(["\n".join(lines), *after])
    title = markdown(table.title)
    if table.fold:
        return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
    return f"### {title}\n\n{body}" if title else body


_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;border-bottom:1px solid #8884;text-align:left;vertical-align:top}
th{border-bottom:2px solid #8888}td.number,th.number{text-align:right}
.note{border-left:3px solid #d9a300;padding-left:.7rem;margin:.4rem 0}
.signature{font:12px/1.4 ui-monospace,monospace;opacity:.7;overflow-wrap:anywhere}
summary{cursor:pointer;font-weight:600}.scroll{overflow-x:auto}
"""


def to_html(document: Document) -> str:
    """Write a document as one HTML page without scripts or outside resources."""
    title = markup(document.title)
    parts = [f"<h1>{title}</h1>"]
    parts += [f"<p>{markup(line)}</p>" for line in document.summary]
    parts += [_html_table(table) for table in document.tables]
    parts += [f'<p class="note">{markup(notice)}</p>' for notice in document.notices]
    parts += [f'<p class="signature">{markup(line)}</p>' for line in document.signatures]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _html_table(table: Table) -> str:
    kinds = ["" if place < table.left else ' class="number"' for place in range(len(table.header))]

    def row(cells: Sequence[str], tag: str) -> str:
        inner = (f"<{tag}{kind}>{markup(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{''.join(inner)}</tr>"

    rows = "\n".join(row(cells, "td") for cells in table.rows)
    head = row(table.header, "th")
    body = f'<div class="scroll"><table><thead>{head}</thead>\n<tbody>{rows}</tbody></table></div>'
    if table.hidden:
        body += f"<p>... and {table.hidden} more</p>"
    if table.note:
        body += f"<p>{markup(table.note)}</p>"
    if table.fold:
        return f"<details><summary>{markup(table.title)}</summary>{body}</details>"
    return f"<h2>{markup(table.title)}</h2>{body}" if table.title else body
