"""Descriptors: what is published is what is read, and nothing else is believed."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import StartupError
from garcon.local.descriptors import (
    BadDescriptor,
    Descriptor,
    clear,
    is_capability,
    loopback_address,
    new_capability,
    proof,
    publish,
    publish_older,
    read,
    remove_if_ours,
)
from garcon.local.files import InsecureFile, write_private

if TYPE_CHECKING:
    from garcon.local.descriptors import Role

CAPABILITY = "garcon_local_" + "A" * 43


def a_descriptor(role: Role = "controller", **more: Any) -> Descriptor:
    fields: dict[str, Any] = {
        "instance_id": "b2c6a7f4-7f43-4a7e-9a53-0a8c7f7f4f11",
        "started_at": 1_700_000_000_123,
        "pid": 42,
        "base_url": "http://127.0.0.1:8080",
        "local_capability": CAPABILITY,
        "workspace_dir": "/home/me/.garcon/workspace-default" if role == "controller" else None,
    }
    return Descriptor(role=role, **(fields | more))


class PublishTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp()) / "runtime.json"

    def test_both_roles_come_back(self) -> None:
        """Reading gives what was published, for either role."""
        for written in (a_descriptor("controller"), a_descriptor("executor")):
            publish(self.path, written)
            found = read(self.path, written.role)
            for name in Descriptor.__slots__:
                self.assertEqual(getattr(written, name), getattr(found, name), name)

    def test_file_is_private_and_readable(self) -> None:
        """It is pretty JSON with a newline, mode 0600; a gateway's names no workspace."""
        publish(self.path, a_descriptor("executor"))
        self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))
        text = self.path.read_text()
        self.assertTrue(text.startswith('{\n  "schemaVersion": 1,\n') and text.endswith("}\n"))
        fields = json.loads(text)
        self.assertEqual("executor-cli", fields["kind"])
        self.assertNotIn("workspaceDir", fields)

    def test_older_form_has_iso_time(self) -> None:
        """The older form has an ISO time and no kind, and readers take its time as well."""
        publish_older(self.path, a_descriptor())
        fields = json.loads(self.path.read_text())
        self.assertEqual("2023-11-14T22:13:20.123Z", fields["startedAt"])
        self.assertEqual(
            {
                "schemaVersion",
                "instanceId",
                "workspaceDir",
                "startedAt",
                "pid",
                "baseUrl",
                "localCapability",
            },
            set(fields),
        )
        self.assertEqual(1_700_000_000_123, read(self.path, "controller").started_at)

    def test_only_ours_is_removed(self) -> None:
        """A successor's descriptor stays; ours goes, in either form; a broken one stays."""
        publish(self.path, a_descriptor())
        self.assertFalse(remove_if_ours(self.path, "someone-else"))
        self.assertTrue(self.path.exists())
        self.assertTrue(remove_if_ours(self.path, a_descriptor().instance_id))
        self.assertFalse(self.path.exists())
        self.assertFalse(remove_if_ours(self.path, a_descriptor().instance_id))
        publish_older(self.path, a_descriptor())
        self.assertTrue(remove_if_ours(self.path, a_descriptor().instance_id))
        write_private(self.path, b"{")
        self.assertFalse(remove_if_ours(self.path, a_descriptor().instance_id))

    def test_ours_is_removed_whatever_its_mode(self) -> None:
        """Somebody opened it to others; the capability in it must not stay behind."""
        publish(self.path, a_descriptor())
        os.chmod(self.path, 0o644)
        self.assertTrue(remove_if_ours(self.path, a_descriptor().instance_id))
        self.assertFalse(self.path.exists())

    def test_clearing_removes_whatever_is_there(self) -> None:
        """A predecessor's file goes, malformed or absent as it may be; failing to is fatal."""
        clear(self.path)
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("garbage")
        clear(self.path)
        self.assertFalse(self.path.exists())
        self.path.mkdir()
        self.assertRaises(StartupError, clear, self.path)

    def test_repr_hides_the_capability(self) -> None:
        """What a log may show never holds the secret."""
        self.assertNotIn(CAPABILITY, repr(a_descriptor()))


class ReadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp())

    def refused(self, change: dict[str, Any], role: Role = "controller") -> str:
        fields = a_descriptor(role).fields() | change
        fields = {name: value for name, value in fields.items() if value is not ...}
        write_private(self.path, json.dumps(fields).encode())
        error: BadDescriptor = self.assertRaises(BadDescriptor, read, self.path, role)
        return error.text

    def test_each_field_is_checked(self) -> None:
        """A descriptor with one wrong or missing field is malformed, and the text names it."""
        wrong: dict[str, list[Any]] = {
            "schemaVersion": [2, "1", True, ...],
            "instanceId": ["", " x", "x" * 129, "x\ud800", "x\ny", 5, ...],
            "startedAt": [-1, True, "yesterday", "2023-11-14T22:13:20", 1e16, None, ...],
            "pid": [0, -1, 1.5, "1", True, ...],
            "baseUrl": ["http://example.com:80", "http://127.0.0.1:80/", "", 1, ...],
            "localCapability": ["garcon_local_short", "x" * 56, CAPABILITY + "A", ...],
            "workspaceDir": ["", 1, ...],
            "kind": ["executor-cli", "x"],
        }
        for name, values in wrong.items():
            for value in values:
                self.assertIn(name, self.refused({name: value}), value)

    def test_a_gateway_is_known_by_its_kind(self) -> None:
        """A worker's file must say its kind and must not name a workspace."""
        self.assertIn("kind", self.refused({"kind": ...}, "executor"))
        self.assertIn("workspaceDir", self.refused({"workspaceDir": "/x"}, "executor"))

    def test_not_even_json(self) -> None:
        """What is no JSON object is malformed, never absent."""
        for content in (b"", b"{", b"[]", b"null", b"\xff", b"[" * 50_000):
            write_private(self.path, content)
            self.assertRaises(BadDescriptor, read, self.path, "controller")
            self.assertFalse(remove_if_ours(self.path, "instance"))

    def test_insecure_is_not_absent(self) -> None:
        """An insecure file is told as such."""
        publish(self.path, a_descriptor())
        os.chmod(self.path, 0o640)
        self.assertRaises(InsecureFile, read, self.path, "controller")

    def test_unknown_members_are_ignored(self) -> None:
        """A later version may say more."""
        fields = a_descriptor().fields() | {"later": 1}
        write_private(self.path, json.dumps(fields).encode())
        self.assertEqual(42, read(self.path, "controller").pid)


class AddressTests(SynchronousTestCase):
    def test_loopback_only(self) -> None:
        """Loopback hosts in their plain forms are taken, everything else is not."""
        fine = {
            "http://127.0.0.1:8080": ("http", "127.0.0.1", 8080),
            "http://127.255.0.9:1": ("http", "127.255.0.9", 1),
            "http://localhost:65535": ("http", "localhost", 65535),
            "http://[::1]:9": ("http", "::1", 9),
            "https://[::1]": ("https", "::1", 443),
            "http://localhost": ("http", "localhost", 80),
        }
        for url, address in fine.items():
            self.assertEqual(address, loopback_address(url), url)
        wrong: tuple[str | None, ...] = (
            "http://128.0.0.1:80",
            "http://127.0.0.1.example.com:80",
            "http://127.0.0.256:80",
            "http://0.0.0.0:80",
            "http://u@127.0.0.1:80",
            "http://127.0.0.1:80/",
            "http://127.0.0.1:80?x",
            "http://127.0.0.1:80#x",
            "http://127.0.0.1:0",
            "http://127.0.0.1:65536",
            "http://127.0.0.1:",
            "http://127.0.0.1:+80",
            "http://127.0.0.1:८०",
            "http://[::2]:80",
            "ftp://127.0.0.1:80",
            "127.0.0.1:80",
            "http://127.0.0.1:80\n",
            None,
        )
        for text in wrong:
            self.assertIsNone(loopback_address(text), text)


class ProofTests(SynchronousTestCase):
    def test_is_the_contracts_hmac(self) -> None:
        """The proof is HMAC-SHA-256 over prefix, instance and challenge, in base64url."""
        challenge = "c" * 43
        message = b"garcon-runtime-proof-v1\0instance\0" + challenge.encode()
        for key in (CAPABILITY, "k" * 100):
            digest = hmac.new(key.encode(), message, hashlib.sha256).digest()
            expected = urlsafe_b64encode(digest).rstrip(b"=").decode()
            self.assertEqual(expected, proof(key, "instance", challenge))

    def test_capabilities_are_fresh(self) -> None:
        """Each capability is well-formed and new."""
        made = {new_capability() for _ in range(50)}
        self.assertEqual(50, len(made))
        self.assertTrue(all(is_capability(text) for text in made))
