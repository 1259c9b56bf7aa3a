"""Connection URLs, public bases and secrets (control.md E.6)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.connection_url import (
    expand,
    format_connection_url,
    inbound_address,
    is_secret,
    new_secret,
    parse_address,
    parse_connection_url,
    parse_public_base,
    redact,
    require_dialling_choice,
    require_tls_choice,
    secret_bytes,
)
from garcon.contract.limits import URL_CHARACTERS
from garcon.errors import GarconError

SECRET = new_secret(bytes(range(32)))
ID = "1a111111-2222-4333-8444-555555555555"


class _Refusing(SynchronousTestCase):
    def refused(self, call: Callable[..., object], *arguments: object) -> str:
        error = self.assertRaises(GarconError, call, *arguments)
        self.assertEqual((error.code, error.status), ("VALIDATION_FAILED", 400))
        self.assertNotIn(SECRET, error.text)
        return str(error.text)


class SecretTests(_Refusing):
    """32 random bytes, in exactly one spelling."""

    def test_round_trip(self) -> None:
        """A secret is its bytes and nothing else."""
        self.assertEqual(len(SECRET), 43)
        self.assertEqual(secret_bytes(SECRET), bytes(range(32)))

    def test_needs_exactly_32_bytes(self) -> None:
        """Neither 31 nor 33 bytes make a secret."""
        self.assertRaises(ValueError, new_secret, bytes(31))
        self.assertRaises(ValueError, new_secret, bytes(33))

    def test_length_42_43_44(self) -> None:
        """A secret has 43 characters, not one less or more."""
        self.assertFalse(is_secret("A" * 42))
        self.assertTrue(is_secret("A" * 43))
        self.assertFalse(is_secret("A" * 44))

    def test_only_the_canonical_spelling(self) -> None:
        """The last character carries four bits: sixteen of the 64 can end a secret."""
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        ends = "".join(c for c in alphabet if is_secret("A" * 42 + c))
        self.assertEqual("".join(sorted(ends)), "".join(sorted("AEIMQUYcgkosw048")))

    def test_other_base64_is_none(self) -> None:
        """Padding, the other alphabet and a line end are refused."""
        for text in ("A" * 42 + "=", "+" + "A" * 42, "A" * 43 + "\n", "é" + "A" * 42):
            self.assertFalse(is_secret(text), text)


class ConnectionUrlTests(_Refusing):
    """``wss://host[:port]/path?query#secret=...``"""

    def test_parts(self) -> None:
        """Host, port and request target are taken apart; the secret is not part of the address."""
        url = parse_connection_url(f"wss://example.org:8443/a/b?c=d#secret={SECRET}")
        a = url.address
        self.assertEqual(
            (a.scheme, a.host, a.port, a.target), ("wss", "example.org", 8443, "/a/b?c=d")
        )
        self.assertEqual((a.url, url.secret), ("wss://example.org:8443/a/b?c=d", SECRET))
        self.assertEqual(url.format(), f"wss://example.org:8443/a/b?c=d#secret={SECRET}")

    def test_defaults(self) -> None:
        """Without port and path: the scheme's port, and ``/``."""
        a = parse_address("ws://example.org")
        self.assertEqual((a.port, a.target, a.is_tls), (80, "/", False))
        self.assertEqual(parse_address("wss://example.org?x").target, "/?x")
        self.assertEqual(parse_address("wss://[::1]:7/x").host, "::1")
        self.assertEqual(parse_address("WSS://h/x").url, "wss://h/x")

    def test_one_fragment_parameter(self) -> None:
        """The fragment is ``secret=`` and the secret, and nothing more."""
        for fragment in (
            "",
            "#",
            f"#{SECRET}",
            f"#Secret={SECRET}",
            f"#secret={SECRET}&x=y",
            f"#x=y&secret={SECRET}",
            f"#secret={SECRET}#",
            "#secret=password",
            f"?secret={SECRET}",
        ):
            self.refused(parse_connection_url, f"wss://example.org/x{fragment}")

    def test_no_user_info(self) -> None:
        """A user name or a password is refused."""
        for authority in ("u@example.org", "u:p@example.org", "@example.org"):
            self.refused(parse_connection_url, f"wss://{authority}/#secret={SECRET}")

    def test_schemes(self) -> None:
        """Only ``wss`` and ``ws``."""
        for scheme in ("https", "http", "ftp", ""):
            self.refused(parse_connection_url, f"{scheme}://example.org/#secret={SECRET}")
        self.refused(parse_connection_url, f"//example.org/#secret={SECRET}")

    def test_hosts_that_lead_nowhere(self) -> None:
        """The unspecified addresses are refused however they are written."""
        for host in ("0.0.0.0", "0.0.0.0.", "[::]", "[0:0::0]", "[::ffff:0.0.0.0]", "[::0.0.0.0]"):
            self.refused(parse_address, f"wss://{host}:1/x")

    def test_malformed_hosts(self) -> None:
        """No host, half an address, or a number that some parsers take for one."""
        for host in (
            "",
            ":1",
            "0",
            "0x0",
            "1.2.3",
            "1.2.3.4.5",
            "[1.2.3.4]",
            "[::1",
            "a b",
            "a..b",
        ):
            self.refused(parse_address, f"wss://{host}/x")
        for port in ("0", "65536", "123456", "x", ""):
            self.refused(parse_address, f"wss://h:{port}/x")
        self.assertEqual(parse_address("wss://h:65535/").port, 65_535)

    def test_characters(self) -> None:
        """What a URL must escape is refused: spaces, controls, quotes, braces, other scripts."""
        for character in (" ", "\n", "\r", "\x00", '"', "<", "\\", "{", "é"):
            self.refused(parse_address, f"wss://example.org/{character}")

    def test_length_at_and_over_the_limit(self) -> None:
        """4096 characters with the secret, and not one more."""
        room = URL_CHARACTERS - len(f"wss://h/#secret={SECRET}")
        self.assertEqual(
            len(parse_connection_url(f"wss://h/{'a' * room}#secret={SECRET}").format()), 4096
        )
        self.refused(parse_connection_url, f"wss://h/{'a' * (room + 1)}#secret={SECRET}")
        parse_address(f"wss://h/{'a' * room}")
        self.refused(parse_address, f"wss://h/{'a' * (room + 1)}")

    def test_length_counts_after_expansion(self) -> None:
        """A template that fits may not fit any more with its ids in place."""
        template = "wss://h/" + "{executorId}" * 120
        self.assertLess(len(template), URL_CHARACTERS)
        self.refused(parse_address, expand(template, ID))

    def test_every_template_is_expanded(self) -> None:
        """Each ``{executorId}`` becomes the id."""
        self.assertEqual(expand("wss://h/{executorId}/{executorId}", ID), f"wss://h/{ID}/{ID}")

    def test_repr_has_no_secret(self) -> None:
        """Neither value shows the secret by accident."""
        self.assertNotIn(SECRET, repr(parse_connection_url(f"wss://h/#secret={SECRET}")))

    def test_redaction(self) -> None:
        """Messages keep the address and lose the secret."""
        text = f"cannot dial {format_connection_url('wss://h/x', SECRET)} now"
        self.assertEqual(redact(text), "cannot dial wss://h/x#secret=[redacted] now")


class TlsChoiceTests(_Refusing):
    """``ws:`` needs the explicit choice."""

    def test_unencrypted_needs_no_tls(self) -> None:
        """And the refusal names the option."""
        ws, wss = parse_address("ws://h/"), parse_address("wss://h/")
        self.assertIn("--no-tls true", self.refused(require_tls_choice, ws, False))
        require_tls_choice(ws, True)
        require_tls_choice(wss, False)
        require_tls_choice(wss, True)

    def test_a_dialling_worker_refuses_the_contradiction(self) -> None:
        """``--no-tls`` with ``wss:`` is refused there, as ``ws:`` without it is."""
        ws, wss = parse_address("ws://h/"), parse_address("wss://h/")
        self.refused(require_dialling_choice, ws, False)
        self.refused(require_dialling_choice, wss, True)
        require_dialling_choice(ws, True)
        require_dialling_choice(wss, False)


class PublicBaseTests(_Refusing):
    """What the generated address of an inbound executor is made from."""

    def test_scheme_and_prefix(self) -> None:
        """``https`` becomes ``wss``, ``http`` ``ws``; the path prefix is kept."""
        for base, address in (
            ("https://g.example.org", f"wss://g.example.org/executor/{ID}"),
            ("https://g.example.org/", f"wss://g.example.org/executor/{ID}"),
            ("https://g.example.org/team/a", f"wss://g.example.org/team/a/executor/{ID}"),
            ("http://127.0.0.1:8080/", f"ws://127.0.0.1:8080/executor/{ID}"),
        ):
            self.assertEqual(inbound_address(base, ID), address)

    def test_ends_in_a_slash(self) -> None:
        """The base does, whether it was given so or not."""
        self.assertEqual(parse_public_base("https://h/a"), "https://h/a/")

    def test_refused(self) -> None:
        """Credentials, query, fragment, no host, other schemes, and addresses nobody can reach."""
        for base in (
            "https://u:p@h/",
            "https://h/?a",
            "https://h/#a",
            "h",
            "/a",
            "https://",
            "wss://h/",
            "http://0.0.0.0:1/",
            "http://[::]/",
            "https://example.com/",
            "https://EXAMPLE.com./",
        ):
            self.refused(parse_public_base, base)

    def test_length_at_and_over_the_limit(self) -> None:
        """4096 characters, and not one more."""
        self.assertEqual(len(parse_public_base("https://h/" + "a" * 4085 + "/")), 4096)
        self.refused(parse_public_base, "https://h/" + "a" * 4087)
