"""The peers that are SSH's: ``ssh`` to a private sshd on loopback, with keys of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from garcon.testing.fleet import Fleet, free_port

SSHD_FOLDER = Path("/run/sshd")


def _wait_for_port(port: int, what: str, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} does not listen on port {port}") from None
            time.sleep(0.05)


def _key(path: Path) -> Path:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(argv, check=True, timeout=20, stdin=subprocess.DEVNULL)
    return path


def missing() -> str | None:
    """Return why no sshd can be had here, None when one can."""
    search = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    for program in ("sshd", "ssh", "ssh-keygen"):
        if shutil.which(program, path=search) is None:
            return f"{program} is not installed"
    if os.geteuid() == 0 and not SSHD_FOLDER.is_dir():
        try:
            SSHD_FOLDER.mkdir(mode=0o755)
        except OSError as error:
            return f"sshd has no folder for its privilege separation ({error.strerror})"
    return None


def open_sshd(fleet: Fleet) -> list[str]:
    """Start sshd; return what a client of its needs for arguments, the address last."""
    folder = fleet.root / "ssh"
    folder.mkdir(mode=0o700)
    host, user = _key(folder / "host"), _key(folder / "user")
    authorized = folder / "authorized_keys"
    shutil.copy(user.with_suffix(".pub"), authorized)
    listening = free_port()
    config = folder / "sshd_config"
    config.write_text(
        f"Port {listening}\nListenAddress 127.0.0.1\nHostKey {host}\nPidFile none\n"
        f"AuthorizedKeysFile {authorized}\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nAllowTcpForwarding yes\nLogLevel ERROR\nUseDNS no\n"
    )
    # sshd insists on being started by its absolute path.
    sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    assert sshd is not None, "asked for an sshd that is not there"
    fleet.start("sshd", folder, [sshd, "-D", "-e", "-f", str(config)])
    _wait_for_port(listening, "sshd")
    return [
        *("-F", "none", "-i", str(user), "-p", str(listening)),
        *("-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder / 'known'}"),
        *("-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"),
        f"{getpass.getuser()}@127.0.0.1",
    ]


def open_tunnel(fleet: Fleet, port: int) -> str:
    """Start sshd and a long-lived ``ssh -R`` to `port`; return the URL of the far end."""
    options, far = open_sshd(fleet), free_port()
    forward = ["-N", "-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:{far}:127.0.0.1:{port}"]
    fleet.start("ssh", fleet.root / "ssh", ["ssh", *forward, *options])
    _wait_for_port(far, "ssh -R")
    return f"http://127.0.0.1:{far}"


def say(text: str) -> None:
    """Tell the person who waits what is going on, apart from the results."""
    print(text, file=sys.stderr, flush=True)
