"""Which proxy leads where, as the environment says it."""

from __future__ import annotations

from base64 import b64decode

from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import StartupError
from garcon.link.proxy_route import Proxy, ProxyRoutes

PROXY = "http://proxy.example:3128"


def routes(**variables: str) -> ProxyRoutes:
    return ProxyRoutes.from_environment(variables)


class Variables(SynchronousTestCase):
    """Which variable counts for which address."""

    def test_nothing_set_is_direct(self) -> None:
        """Without a variable, or with empty ones, nothing is proxied."""
        for found in (ProxyRoutes(), routes(), routes(HTTPS_PROXY=" ", ALL_PROXY="")):
            self.assertIsNone(found.to("worker.example", 443, is_tls=True))

    def test_https_proxy_is_for_tls_addresses(self) -> None:
        """A ``ws:`` address is left to ``ALL_PROXY``."""
        found = routes(HTTPS_PROXY=PROXY, HTTP_PROXY="http://other:1")
        self.assertEqual(found.to("worker.example", 443, is_tls=True), Proxy("proxy.example", 3128))
        self.assertIsNone(found.to("worker.example", 80, is_tls=False))

    def test_all_proxy_is_for_the_rest(self) -> None:
        """The more special variable wins over it."""
        found = routes(HTTPS_PROXY=PROXY, ALL_PROXY="other.example:8080")
        self.assertEqual(found.to("w.example", 443, is_tls=True), Proxy("proxy.example", 3128))
        self.assertEqual(found.to("w.example", 80, is_tls=False), Proxy("other.example", 8080))

    def test_lower_case_wins(self) -> None:
        """As everywhere else."""
        found = routes(HTTPS_PROXY="http://upper:1", https_proxy="http://lower:2")
        self.assertEqual(found.to("w.example", 443, is_tls=True), Proxy("lower", 2))

    def test_default_ports_and_forms(self) -> None:
        """No scheme is http; a TLS proxy has TLS's port; IPv6 addresses stand in brackets."""
        for text, proxy in (
            ("proxy", Proxy("proxy", 80)),
            ("http://proxy/", Proxy("proxy", 80)),
            ("https://proxy", Proxy("proxy", 443, True)),
            ("http://[2001:db8::1]:3128", Proxy("2001:db8::1", 3128)),
        ):
            self.assertEqual(routes(ALL_PROXY=text).to("w", 1, is_tls=False), proxy, text)


class Passwords(SynchronousTestCase):
    """Basic authentication, and that nobody sees it."""

    def test_user_and_password_are_decoded(self) -> None:
        """Percent-encoding is the URL's, not the proxy's."""
        proxy = routes(ALL_PROXY="http://u%40corp:p%3a%2f%C3%A4@proxy:1").to("w", 1, is_tls=True)
        assert proxy is not None and proxy.authorization is not None
        kind, _, value = proxy.authorization.partition(b" ")
        self.assertEqual(kind, b"Basic")
        self.assertEqual(b64decode(value), "u@corp:p:/ä".encode())

    def test_a_user_alone_has_an_empty_password(self) -> None:
        """The colon is still sent."""
        proxy = routes(ALL_PROXY="http://user@proxy:1").to("w", 1, is_tls=True)
        assert proxy is not None and proxy.authorization is not None
        self.assertEqual(b64decode(proxy.authorization.split()[1]), b"user:")

    def test_no_text_shows_them(self) -> None:
        """Neither the routes' own form nor a mistake's message."""
        found = routes(ALL_PROXY="http://user:hunter2@proxy:1")
        self.assertNotIn("hunter2", repr(found))
        self.assertNotIn("Basic", repr(found))
        for text in (
            "http://user:hunter2@proxy:99999",
            "http://user:hunter2@proxy:0",
            "ftp://user:hunter2@proxy",
            "http://user:hunter2@",
            "http://user:hunter2@proxy/path",
            "http://us%3aer:hunter2@proxy",
            "http://user:hunter2%0d%0aX@proxy",
            "socks5h://user:hunter2@proxy",
            "http://user:hunter2@[::1",
        ):
            error = self.assertRaises(StartupError, routes, HTTPS_PROXY=text)
            self.assertNotIn("hunter2", error.text)
            self.assertTrue(error.text.startswith("HTTPS_PROXY"), error.text)

    def test_socks_is_named_as_what_it_is(self) -> None:
        """Its user learns what to do instead; asking for no proxy at all settles it."""
        error = self.assertRaises(StartupError, routes, all_proxy="socks5://proxy:1080")
        self.assertTrue(error.text.startswith("all_proxy names a SOCKS proxy"))
        self.assertIn("NO_PROXY", error.text)
        found = routes(ALL_PROXY="socks5://proxy:1080", NO_PROXY="*")
        self.assertIsNone(found.to("w", 1, is_tls=True))


class Exceptions(SynchronousTestCase):
    """``NO_PROXY``, and what is never proxied."""

    def assert_direct(self, no_proxy: str, *hosts: str) -> None:
        for host in hosts:
            self.assertIsNone(self.ask(no_proxy, host), (no_proxy, host))

    def assert_proxied(self, no_proxy: str, *hosts: str) -> None:
        for host in hosts:
            self.assertIsNotNone(self.ask(no_proxy, host), (no_proxy, host))

    def ask(self, no_proxy: str, host: str) -> Proxy | None:
        found = routes(ALL_PROXY=PROXY, NO_PROXY=no_proxy)
        name, _, port = host.partition(" ")
        return found.to(name, int(port or 443), is_tls=True)

    def test_this_machine_is_never_proxied(self) -> None:
        """By any of its names."""
        self.assert_direct(
            "", "localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"
        )
        self.assert_direct("", "::ffff:127.0.0.1")

    def test_names_and_what_is_below_them(self) -> None:
        """A name covers its subdomains; with a leading dot only those."""
        self.assert_direct("example.com", "example.com", "a.example.com", "A.EXAMPLE.com.")
        self.assert_proxied("example.com", "anexample.com", "example.com.org", "com")
        for entry in (".example.com", "*.example.com"):
            self.assert_direct(entry, "a.example.com", "a.b.example.com")
            self.assert_proxied(entry, "example.com", "bexample.com")

    def test_lists(self) -> None:
        """Commas and spaces part entries; what is none is passed over."""
        for listed in ("a.example,b.example", " a.example  b.example ,", ",a.example,??,b.example"):
            self.assert_direct(listed, "a.example", "b.example")
            self.assert_proxied(listed, "c.example")

    def test_addresses_and_networks(self) -> None:
        """Addresses are compared as addresses, whatever their spelling."""
        self.assert_direct("192.0.2.7", "192.0.2.7", "::ffff:192.0.2.7")
        self.assert_proxied("192.0.2.7", "192.0.2.70", "a.192.0.2.7.example")
        self.assert_direct("10.0.0.0/8,2001:db8::/32", "10.255.0.1", "2001:db8:1::1")
        self.assert_proxied("10.0.0.0/8,2001:db8::/32", "11.0.0.1", "2001:db9::1", "ten.example")
        self.assert_direct("10.1.2.3/8", "10.200.0.1")
        self.assert_direct("2001:DB8:0::1,[2001:db8::2]", "2001:db8::1", "2001:db8::2")
        self.assert_proxied("10.0.0.0/99", "10.0.0.1")

    def test_ports(self) -> None:
        """An entry with a port covers that port only."""
        self.assert_direct("a.example:8443,192.0.2.7:1,[2001:db8::1]:2", "a.example 8443")
        self.assert_direct("a.example:8443,192.0.2.7:1,[2001:db8::1]:2", "192.0.2.7 1")
        self.assert_direct("a.example:8443,192.0.2.7:1,[2001:db8::1]:2", "2001:db8::1 2")
        self.assert_proxied("a.example:8443,192.0.2.7:1", "a.example 443", "192.0.2.7 2")
        self.assert_direct("*:8443", "b.example 8443")
        self.assert_proxied("*:8443", "b.example 443")

    def test_everything(self) -> None:
        """A star alone, also among others."""
        self.assert_direct("a.example, *", "b.example", "192.0.2.1")
