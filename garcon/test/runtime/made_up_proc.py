"""A made-up ``/proc``, for tests of who descends from whom."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen


@frozen
class MadeUpProc:
    """The folder of one."""

    path: Path

    @classmethod
    def at(cls, path: Path) -> MadeUpProc:
        """Make an empty one; it holds names that are no processes, as the real one does."""
        (path / "self").mkdir(parents=True)
        return cls(path)

    def __str__(self) -> str:
        return str(self.path)

    def process(
        self,
        pid: int,
        parent: int,
        *,
        session: int = 1,
        started: int = 5,
        state: str = "S",
        environment: bytes = b"A=1\0",
        name: str = "sh",
        threads: int = 1,
    ) -> None:
        """Write one process."""
        place = self.path / str(pid)
        place.mkdir(exist_ok=True)
        fields = [state, parent, session, session, *[0] * 13, threads, 0, started, 0]
        (place / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        (place / "environ").write_bytes(environment)
