"""The versions two processes compare: the released package and the link's protocol revision."""

from __future__ import annotations

VERSION = "0.1.0"
"""The released package version; `setup.cfg` reads it from here."""

PROTOCOL_REVISION = 9
"""Grows with every change to what either side of the link sends or accepts (control.md J.2)."""

LINK_VERSION = f"{VERSION}+protocol.{PROTOCOL_REVISION}"
"""What a hello carries; any difference fails the link (decisions.md 18)."""

API_VERSION = 1
