"""What an operator gets from a built wheel: both services under twistd, and the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

import garcon
from garcon.contract.version import VERSION

SOURCE = Path(garcon.__file__).parents[1]
SHIPPED = ("setup.cfg", "pyproject.toml", "MANIFEST.in", "README.rst", "LICENSE")
PLUGIN = "garcon_dropin"


def _run(*argv: str | Path, cwd: Path) -> str:
    """Run a command apart from this checkout; return its output, or fail with it."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "GARCON_"))
    }
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """Build the project from a copy of its sources, so that the checkout stays clean."""
    sources = folder / "sources"
    sources.mkdir()
    for name in SHIPPED:
        shutil.copy(SOURCE / name, sources / name)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "dropin.cache")
    for name in ("garcon", "twisted"):
        shutil.copytree(SOURCE / name, sources / name, ignore=ignored)
    # From 70.1 on setuptools writes wheels by itself and the build needs no downloads.
    current = tuple(int(part) for part in version("setuptools").split(".")[:2]) >= (70, 1)
    flags = ["--no-isolation", "--skip-dependency-check"] if current else []
    _run(sys.executable, "-m", "build", "--wheel", *flags, "--outdir", folder, sources, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def share_dependencies(site: Path, folder: Path) -> None:
    """Let an environment use this one's packages, except anything of garcon itself."""
    shared = folder / "dependencies"
    shared.mkdir()
    for entry in ("purelib", "platlib"):
        for path in Path(sysconfig.get_path(entry)).iterdir():
            ours = path.name.lower().startswith(("garcon", "__editable__"))
            if ours or path.suffix == ".pth" or (shared / path.name).exists():
                continue
            if path.name != "twisted":
                (shared / path.name).symlink_to(path)
                continue
            plugins = shared / "twisted" / "plugins"
            plugins.mkdir(parents=True)
            for part in path.iterdir():
                if part.name != "plugins":
                    (plugins.parent / part.name).symlink_to(part)
            for part in (path / "plugins").iterdir():
                if part.suffix == ".py" and part.stem != PLUGIN:
                    shutil.copy(part, plugins / part.name)
    (site / "shared.pth").write_text(f"{shared}\n")


class WheelTests(SynchronousTestCase):
    """A wheel, installed where no checkout is in reach."""

    def setUp(self) -> None:
        if not (SOURCE / "setup.cfg").is_file():
            raise SkipTest("these tests run from a checkout")
        self.folder = Path(self.mktemp()).resolve()
        self.folder.mkdir(parents=True)

    def test_wheel_brings_both_services_and_the_command(self) -> None:
        """twistd lists both roles from the installed package, and `garcon --version` answers."""
        wheel = build_wheel(self.folder)
        home = self.folder / "home"
        _run(sys.executable, "-m", "venv", "--without-pip", home, cwd=self.folder)
        python = home / "bin" / "python"
        paths = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = Path(_run(python, "-c", paths, cwd=self.folder).strip())
        install = ("-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
        _run(sys.executable, *install, wheel, cwd=self.folder)
        share_dependencies(site, self.folder)

        self.assertTrue((site / "twisted" / "plugins" / f"{PLUGIN}.py").is_file())
        self.assertFalse((site / "twisted" / "__init__.py").exists())
        self.assertFalse((site / "twisted" / "plugins" / "__init__.py").exists())
        # What Pi asks for permission with.
        self.assertTrue((site / "garcon" / "runtime" / "agents" / "pi_gate.mjs").is_file())
        where = _run(python, "-c", "import garcon; print(garcon.__file__)", cwd=self.folder)
        self.assertTrue(where.startswith(str(site)), where)

        twistd = "import sys; from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"
        listed = _run(python, "-c", twistd, "--help", cwd=self.folder)
        self.assertIn("garcon-controller", listed)
        self.assertIn("garcon-worker", listed)
        for role in ("garcon-controller", "garcon-worker"):
            self.assertIn(
                "--config-dir", _run(python, "-c", twistd, role, "--help", cwd=self.folder)
            )

        for command in ("garcon", "garcon-cli"):
            self.assertIn(VERSION, _run(home / "bin" / command, "--version", cwd=self.folder))
