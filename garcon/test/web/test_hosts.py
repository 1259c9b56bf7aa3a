"""Which ``Host`` values a door answers to."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.web.hosts import AllowedHosts, host_name


class HostTests(SynchronousTestCase):
    """A table of names."""

    def test_names_are_read_without_port_and_brackets(self) -> None:
        """Case and a final dot do not matter."""
        for value, name in (
            ("localhost", "localhost"),
            ("LocalHost.:80", "localhost"),
            ("[::1]:8080", "::1"),
            ("a.example:1", "a.example"),
            ("", None),
            (None, None),
            ("a b", None),
            ("a:b", None),
            ("a:1:2", None),
            ("::1", None),
            ("user@localhost", None),
            ("localhost, evil.example", None),
            ("localhost/evil", None),
            ("[::1", None),
            (".", None),
        ):
            self.assertEqual(host_name(value), name, value)

    def test_loopback_is_always_allowed(self) -> None:
        """By any port, and by every address of 127.0.0.0/8."""
        hosts = AllowedHosts()
        for value in ("localhost:1", "127.0.0.1", "[::1]:9", "127.1.2.3:80"):
            self.assertTrue(hosts.allows(value), value)

    def test_everything_else_must_be_named(self) -> None:
        """A page that resolves its own name to loopback is refused."""
        hosts = AllowedHosts(["Garcon.Example", "10.0.0.5", "[fd00::1]"])
        for value in ("garcon.example", "10.0.0.5:80", "[fd00::1]:80"):
            self.assertTrue(hosts.allows(value), value)
        self.assertFalse(hosts.allows(None))
        for value in (
            "evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.256",
            "127.0.0.\u00b2",
            "127.0.0.\u0661",
            ".",
            "garcon.example.evil",
            "10.0.0.6",
            "localhost.evil.example",
        ):
            self.assertFalse(hosts.allows(value), value)

    def test_the_address_that_was_reached_is_a_name_of_ours(self) -> None:
        """Behind a wildcard any interface's literal works, an IPv4 one in IPv6 form too."""
        hosts = AllowedHosts()
        self.assertTrue(hosts.allows("192.168.1.5:80", "192.168.1.5"))
        self.assertTrue(hosts.allows("192.168.1.5:80", "::ffff:192.168.1.5"))
        self.assertFalse(hosts.allows("192.168.1.6", "192.168.1.5"))
        self.assertFalse(hosts.allows("evil.example", ""))
