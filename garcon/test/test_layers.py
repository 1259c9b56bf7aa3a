"""The direction of imports: one table, checked against the source of every module."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

import garcon

PACKAGE = Path(garcon.__file__).parent

MAY_IMPORT: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "deferreds": frozenset(),
    "sockets": frozenset(),
    "contract": frozenset({"errors"}),
    "local": frozenset({"errors"}),
    "web": frozenset({"contract", "errors", "deferreds", "sockets"}),
    "link": frozenset({"contract", "errors", "deferreds", "sockets"}),
    "store": frozenset({"contract", "errors", "deferreds"}),
    "runtime": frozenset({"contract", "errors", "deferreds"}),
    "worker": frozenset(
        {"runtime", "link", "web", "contract", "local", "errors", "deferreds"},
    ),
    "controller": frozenset(
        {
            *("runtime", "link", "web", "store", "contract", "local"),
            *("errors", "deferreds", "sockets", "allocation"),
        },
    ),
    "stalls": frozenset(),
    "allocation": frozenset(),
    "orphans": frozenset(),
    "log_lines": frozenset({"contract"}),
    "process": frozenset(
        {"allocation", "log_lines", "orphans", "stalls", "contract", "errors", "deferreds"},
    ),
    "options": frozenset({"process", "contract"}),
    "cli": frozenset({"contract", "local", "errors"}),
}
"""What each layer may import of garcon, besides itself."""

ROOTS = {"controller/tap.py", "worker/tap.py", "cli/main.py"}
"""The composition roots: they choose implementations, so they may import anything."""

ANYTHING = {"testing", "test", "demo"}
"""Layers that no service imports, so that no rule binds them."""

ONLY_IN: dict[str, tuple[str, ...]] = {
    "noise": ("link/noise.py",),
    "autobahn": ("link/websocket.py", "link/framing.py", "controller/ws/"),
    "sqlite3": ("store/",),
    "pty": ("runtime/terminals/", "cli/terminal.py"),
    "termios": ("runtime/terminals/", "runtime/agents/unread.py", "cli/terminal.py"),
    "tty": ("runtime/terminals/", "cli/terminal.py"),
    "fcntl": ("runtime/terminals/", "runtime/agents/unread.py", "local/", "cli/terminal.py"),
    "twisted.internet.reactor": (),
}
"""Modules that stay behind one of our own, so that they can be replaced there."""


@frozen
class Import:
    """One name that a module imports; `top` when merely importing the module performs it."""

    line: int
    name: str
    top: bool


def _type_checking(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.dump(node.test)


def imports(tree: ast.AST, top: bool = True) -> Iterator[Import]:
    """Every import below a node; ``from a import b`` counts as ``a.b``, as b may be a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, top)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            for alias in node.names:
                yield Import(node.lineno, f"{prefix}.{alias.name}", top)
        else:
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            lazy = isinstance(node, ast.If) and _type_checking(node)
            yield from imports(node, top and not inside and not lazy)


def _is(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def violations(path: str, source: str) -> Iterator[str]:
    """What the module at `path` (below the package) imports against the table."""
    layer = path.split("/")[0].removesuffix(".py")
    if layer in ANYTHING or path == "__init__.py":
        return
    if layer not in MAY_IMPORT:
        yield f"{path}: a new layer; the table must say what it may import"
        return
    for found in imports(ast.parse(source)):
        where = f"{path}:{found.line}"
        if found.name.startswith("."):
            yield f"{where} imports relatively"
        if path in ROOTS:
            continue
        parts = found.name.split(".")
        if parts[0] == "garcon" and parts[1] != layer and parts[1] not in MAY_IMPORT[layer]:
            yield f"{where} {layer} imports {found.name}"
        for module, places in ONLY_IN.items():
            if _is(found.name, module) and not path.startswith(places):
                yield f"{where} imports {found.name}"


def modules() -> dict[str, str]:
    """The source of every module, by its path below the package."""
    return {
        str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def loaded_by(path: str, sources: dict[str, str]) -> dict[str, str]:
    """Every module outside garcon that importing `path` loads, and which of ours asks for it."""
    outside: dict[str, str] = {}
    seen: set[str] = set()
    queue = [path]
    while queue:
        current = queue.pop()
        if current in seen:
            continue
        seen.add(current)
        for found in imports(ast.parse(sources[current])):
            if not found.top:
                continue
            parts = found.name.split(".")
            if parts[0] != "garcon":
                outside.setdefault(parts[0], f"{current}:{found.line}")
                continue
            for length in range(2, len(parts) + 1):
                stem = "/".join(parts[1:length])
                queue += [p for p in (f"{stem}.py", f"{stem}/__init__.py") if p in sources]
    return outside


class DirectionTests(SynchronousTestCase):
    """The tree as it is."""

    def test_every_module_imports_only_what_its_layer_may(self) -> None:
        """No module reaches sideways or upwards, nor past the one module that owns a library."""
        found = [v for path, source in modules().items() for v in violations(path, source)]
        self.assertEqual(found, [])

    def test_package_files_re_export_nothing(self) -> None:
        """An `__init__.py` holds a docstring at most: an import line tells where a thing lives."""
        full = [
            path
            for path, source in modules().items()
            if path.endswith("__init__.py")
            and any(
                not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
                for node in ast.parse(source).body
            )
        ]
        self.assertEqual(full, [])

    def test_the_command_starts_with_the_standard_library_alone(self) -> None:
        """Nothing that a command module imports at its start lies outside the standard library."""
        sources = modules()
        for path in (p for p in sources if p.startswith("cli/")):
            foreign = {
                name: who
                for name, who in loaded_by(path, sources).items()
                if name not in sys.stdlib_module_names
            }
            self.assertEqual(foreign, {}, path)

    def test_no_service_imports_what_is_made_for_tests(self) -> None:
        """Doubles and tests are reached from nowhere at a module's start, roots included."""
        reached = [
            f"{path}:{found.line} {found.name}"
            for path, source in modules().items()
            if path.split("/")[0].removesuffix(".py") not in ANYTHING
            for found in imports(ast.parse(source))
            if found.top and any(_is(found.name, f"garcon.{name}") for name in ANYTHING)
        ]
        self.assertEqual(reached, [])


class TableTests(SynchronousTestCase):
    """The check itself: what it would say of modules that break the rules."""

    def assert_refused(self, path: str, source: str) -> None:
        """Assert that one violation is found."""
        self.assertEqual(len(list(violations(path, source))), 1, (path, source))

    def assert_allowed(self, path: str, source: str) -> None:
        """Assert that none is found."""
        self.assertEqual(list(violations(path, source)), [])

    def test_the_roles_never_import_each_other(self) -> None:
        """Neither worker from controller nor the other way, not even inside a function."""
        self.assert_refused("worker/a.py", "from garcon.controller.handlers import Call")
        self.assert_refused("controller/a.py", "def f():\n    import garcon.worker.tap")
        self.assert_refused("controller/a.py", "from garcon import worker")

    def test_the_runtime_knows_no_link(self) -> None:
        """An executor's runtime serves Local and workers alike."""
        self.assert_refused("runtime/a.py", "from garcon.link.interfaces import ILink")
        self.assert_allowed("runtime/a.py", "from garcon.contract.runs import Launch")

    def test_a_library_stays_behind_its_one_importer(self) -> None:
        """Noise, Autobahn, SQLite and terminal control each have a place."""
        self.assert_allowed("link/noise.py", "from noise.connection import NoiseConnection")
        self.assert_refused("link/session.py", "from noise.connection import NoiseConnection")
        self.assert_refused("link/session.py", "import autobahn.websocket")
        self.assert_refused("controller/chats/a.py", "import sqlite3")
        self.assert_refused("worker/a.py", "import termios")
        self.assert_allowed("local/leases.py", "import fcntl")

    def test_the_reactor_is_chosen_in_a_composition_root(self) -> None:
        """Everything else is handed one."""
        self.assert_refused("link/a.py", "from twisted.internet import reactor")
        self.assert_refused("link/a.py", "import twisted.internet.reactor")
        self.assert_allowed("worker/tap.py", "from twisted.internet import reactor")
        self.assert_allowed("link/a.py", "from twisted.internet.reactors import x")

    def test_a_new_layer_must_be_entered(self) -> None:
        """A package that the table does not name is refused, whatever it imports."""
        self.assert_refused("helpers.py", "")

    def test_imports_are_absolute(self) -> None:
        """A relative import hides its direction."""
        self.assert_refused("link/a.py", "from .noise import Sealer")
