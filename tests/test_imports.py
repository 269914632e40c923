"""Imports go one way, start-up stays light, and only the command line prints or exits."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import evalkit

PACKAGE = Path(evalkit.__file__).parent


@dataclass(frozen=True)
class Place:
    """Where modules stand."""

    pattern: str
    """Name of the module, or a pattern of names."""
    layer: int
    """Its layer; it is imported by modules of this layer and above."""
    reach: int
    """The highest layer it may import; its own for most."""


def layer(number: int, *patterns: str, reach: int | None = None) -> list[Place]:
    return [Place(f"evalkit.{pattern}", number, number if reach is None else reach) for pattern in patterns]


# A module imports only modules of its own layer or of a lower one. The first pattern that fits counts.
LAYERS = [
    Place("evalkit", 0, 0),
    *layer(0, "errors", "jsonl", "columns", "distinct", "parallel", "statistics", "values"),
    *layer(1, "schema"),
    *layer(2, "rows", "runs", "cards", "labels", "catalog", "outcome", "lint", "labelchanges"),
    *layer(2, "readout", "readings", "settings", "shapes"),
    # Foreign formats are for the command line; a recorder shares only the shapes with them.
    *layer(3, "importers", "importers.*", reach=2),
    *layer(3, "decisions"),
    *layer(4, "accuracy", "calibration", "drift", "policy"),
    *layer(5, "signature", "notices", "scoring", "comparing"),
    *layer(6, "api", "checking", "gate", "gate.*"),
    *layer(7, "render", "render.*"),
    # A recorder makes a run and knows nothing of what is measured on it.
    *layer(7, "record", "record.*", reach=2),
    *layer(8, "cli", "cli.*", "__main__"),
]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, ast.Module]:
    return {module_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def place_of(module: str) -> Place | None:
    return next((place for place in LAYERS if fnmatchcase(module, place.pattern)), None)


def is_upward(module: str, target: str) -> bool:
    own, other = place_of(module), place_of(target)
    if own is None or other is None or module.split(".")[:2] == target.split(".")[:2]:
        return False
    return other.layer > own.reach


def is_typing_only(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def statements(tree: ast.AST, *, inside_functions: bool) -> Iterator[ast.AST]:
    """Walk a module's nodes, without what only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and is_typing_only(node):
            for other in node.orelse:
                yield other
                yield from statements(other, inside_functions=inside_functions)
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not inside_functions:
            continue
        yield node
        yield from statements(node, inside_functions=inside_functions)


def imported(tree: ast.Module, known: set[str], *, inside_functions: bool) -> set[str]:
    """Return the modules of the package that a module imports."""
    found: set[str] = set()
    for node in statements(tree, inside_functions=inside_functions):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "evalkit"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the package"
            source = str(node.module)
            if source.split(".", maxsplit=1)[0] == "evalkit":
                # from evalkit import rows: a module; from evalkit.rows import OK: something in one.
                found |= {
                    name if (name := f"{source}.{alias.name}") in known else source for alias in node.names
                }
    return found


@cache
def graph(inside_functions: bool) -> dict[str, set[str]]:
    known = set(modules())
    return {
        name: imported(tree, known, inside_functions=inside_functions) - {name}
        for name, tree in modules().items()
    }


# the graph


def test_every_module_has_a_layer() -> None:
    assert [name for name in modules() if place_of(name) is None] == []


def test_every_layer_holds_modules_that_exist() -> None:
    stale = [
        place.pattern
        for place in LAYERS
        if "*" not in place.pattern
        and not place.pattern.startswith(
            ("evalkit.gate", "evalkit.importers", "evalkit.record", "evalkit.readout")
        )
        and place.pattern not in modules()
    ]
    assert stale == []


def test_imported_modules_exist() -> None:
    missing = {name for targets in graph(True).values() for name in targets} - modules().keys()
    assert missing == set()


def test_imports_of_modules_have_no_cycle() -> None:
    try:
        TopologicalSorter(graph(False)).prepare()
    except CycleError as error:
        pytest.fail("a cycle of imports: " + " -> ".join(error.args[1]))


def test_no_module_imports_upwards_not_even_inside_a_function() -> None:
    upward = [
        f"{name} imports {target}"
        for name, targets in graph(True).items()
        for target in sorted(targets)
        if is_upward(name, target)
    ]
    assert upward == []


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        ("evalkit.rows", "evalkit.jsonl", False),
        ("evalkit.rows", "evalkit.runs", False),
        ("evalkit.rows", "evalkit.scoring", True),
        ("evalkit.render.page", "evalkit.cli.common", True),
        ("evalkit.record.client", "evalkit.record.protocol", False),
        ("evalkit.record.client", "evalkit.labels", False),
        ("evalkit.record.client", "evalkit.decisions", True),
        ("evalkit.record.client", "evalkit.importers.records", True),
        ("evalkit.gate.check", "evalkit.render.page", True),
        ("evalkit.cli.gate", "evalkit.record", False),
    ],
)
def test_upward_is_what_the_table_says(name: str, target: str, expected: bool) -> None:
    assert is_upward(name, target) is expected


def test_graph_sees_imports_inside_functions_and_not_those_for_types() -> None:
    # What the checks above rest on.
    source = """
from typing import TYPE_CHECKING
import evalkit.jsonl
from evalkit import rows, __version__
if TYPE_CHECKING:
    from evalkit.api import score
else:
    from evalkit.drift import drift
try:
    from evalkit.cards import Card
except ImportError:
    pass
class Lazy:
    from evalkit.policy import why
    def method(self):
        from evalkit.render import render
"""
    known = {"evalkit", "evalkit.rows"}
    outside = {f"evalkit{part}" for part in (".jsonl", ".rows", "", ".drift", ".cards", ".policy")}
    tree = ast.parse(source)
    assert imported(tree, known, inside_functions=False) == outside
    assert imported(tree, known, inside_functions=True) == outside | {"evalkit.render"}


# printing and exiting


def loud_calls(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += (
                [node.func.id] if node.func.id in ("print", "exit", "quit", "input", "breakpoint") else []
            )
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            loud = (
                "sys.exit",
                "sys.stdout",
                "sys.stderr",
                "os._exit",
                "os.abort",
                "typer.echo",
                "typer.Exit",
            )
            found += [name] if name in loud else []
        elif isinstance(node, ast.Name) and node.id == "SystemExit":
            found.append(node.id)
    return found


@pytest.mark.parametrize("module", sorted(modules()))
def test_nothing_but_the_command_line_prints_or_exits(module: str) -> None:
    allowed = module.startswith("evalkit.cli") or module == "evalkit.__main__"
    assert allowed or loud_calls(modules()[module]) == []


def test_loud_calls_are_seen() -> None:
    source = "import sys\nprint(1)\nsys.exit(2)\nraise SystemExit(3)\nsys.stderr.write('x')\nlog.print(1)\n"
    assert sorted(loud_calls(ast.parse(source))) == ["SystemExit", "print", "sys.exit", "sys.stderr"]


# start-up


DRIVER = """
import json, sys
sys.argv = ["evalkit", *sys.argv[1:]]
from evalkit.cli import main
code = 0
try:
    main()
except SystemExit as stop:
    code = stop.code or 0
sys.stdout.flush()
found = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps({"code": code, "modules": found}), file=sys.stderr)
"""


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """Run a command in a process of its own and return the packages it loaded."""
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    last = json.loads(ran.stderr.splitlines()[-1])
    assert last["code"] == 0, ran.stderr
    assert ran.stdout
    return set(last["modules"])


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["score", "--help"], ["diff", "--help"]])
def test_help_loads_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    found = loaded_by(tmp_path, *arguments)
    assert "typer" in found
    assert not found & {
        "numpy",
        "pandas",
        "pyarrow",
        "sklearn",
        "scipy",
        "datasets",
        "matplotlib",
        "jsonschema",
        "yaml",
    }


@pytest.mark.parametrize("arguments", [["score", "bf16"], ["diff", "bf16", "q4"]])
def test_score_and_diff_load_only_what_they_need(tmp_path: Path, arguments: list[str]) -> None:
    found = loaded_by(tmp_path, *arguments)
    assert {"numpy", "pyarrow"} <= found
    assert not found & {"pandas", "sklearn", "scipy", "datasets", "matplotlib", "statsmodels", "hypothesis"}


def test_importing_evalkit_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, evalkit; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert not set(ran.stdout.split()) & {"numpy", "pandas", "pyarrow", "typer", "jsonschema", "yaml"}


# public names


@pytest.mark.parametrize("name", evalkit.__all__)
def test_public_name_leads_somewhere_and_is_documented(name: str) -> None:
    value = getattr(evalkit, name)
    if name != "__version__":
        assert value.__name__ == name
        assert value.__doc__
        assert value.__doc__.strip()[0].isupper()


def test_public_names_are_those_that_type_checkers_see() -> None:
    [block] = [
        node for node in ast.walk(modules()["evalkit"]) if isinstance(node, ast.If) and is_typing_only(node)
    ]
    seen = {
        alias.asname or alias.name
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen | {"__version__"} == set(evalkit.__all__)
    assert len(set(evalkit.__all__)) == len(evalkit.__all__)
    assert list(evalkit.__all__) == sorted(evalkit.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'evalkit' has no attribute 'nope'"):
        evalkit.nope  # noqa: B018
    assert not hasattr(evalkit, "numpy")


def test_private_members_stay_inside_their_module() -> None:
    private = [
        f"{name} imports {alias.name} of {node.module}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "evalkit"
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert private == []
