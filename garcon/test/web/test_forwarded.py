"""Forwarded addresses count only from trusted proxies, read from the end of the list."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.web.forwarded import TrustedProxies, parse_network

PROXY, INNER, CLIENT, LIAR = "10.0.0.1", "10.0.0.2", "192.0.2.7", "198.51.100.9"


class ClientTests(SynchronousTestCase):
    """Whose request it is."""

    def setUp(self) -> None:
        self.proxies = TrustedProxies([parse_network("10.0.0.0/8"), parse_network("fd00::/8")])

    def test_a_stranger_cannot_speak_for_others(self) -> None:
        """What comes from elsewhere counts for nothing."""
        for forwarded, real in ((CLIENT, None), (None, CLIENT), (f"{CLIENT}, {PROXY}", CLIENT)):
            self.assertEqual(self.proxies.client(LIAR, forwarded, real), LIAR)
        self.assertEqual(TrustedProxies().client(PROXY, CLIENT), PROXY)

    def test_the_list_is_read_from_its_end(self) -> None:
        """The first address that is no proxy's is the client's; what it says before is its own."""
        for forwarded in (
            CLIENT,
            f"{LIAR}, {CLIENT}",
            f"{LIAR},{CLIENT} , {INNER}",
            f"10.9.9.9, {CLIENT}, {INNER}",
        ):
            self.assertEqual(self.proxies.client(PROXY, forwarded), CLIENT, forwarded)

    def test_proxies_all_the_way(self) -> None:
        """Then the farthest of them is the client."""
        self.assertEqual(self.proxies.client(PROXY, f"{INNER}, 10.3.3.3"), INNER)

    def test_a_list_that_stops_making_sense(self) -> None:
        """It is read as far as it does."""
        for forwarded in ("", "unknown", f"{CLIENT}, _hidden", f"{CLIENT}, "):
            self.assertEqual(self.proxies.client(PROXY, forwarded), PROXY, forwarded)
        self.assertEqual(self.proxies.client(PROXY, f"x, {INNER}"), INNER)

    def test_the_real_address_counts_without_a_list(self) -> None:
        """Some proxies write only that."""
        self.assertEqual(self.proxies.client(PROXY, None, CLIENT), CLIENT)
        self.assertEqual(self.proxies.client(PROXY, LIAR, CLIENT), LIAR)
        self.assertEqual(self.proxies.client(PROXY, None, None), PROXY)

    def test_forms_of_an_address(self) -> None:
        """With a port, in brackets, mapped into IPv6."""
        for forwarded, client in (
            (f"{CLIENT}:4711", CLIENT),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("2001:DB8:0::1", "2001:db8::1"),
            (f"::ffff:{CLIENT}", CLIENT),
        ):
            self.assertEqual(self.proxies.client(PROXY, forwarded), client, forwarded)
        self.assertEqual(self.proxies.client(f"::ffff:{PROXY}", CLIENT), CLIENT)
        self.assertEqual(self.proxies.client("fd00::1%eth0", CLIENT), CLIENT)

    def test_a_long_list_is_read_for_64_addresses(self) -> None:
        """Sixty-four proxies are gone through, a sixty-fifth is not."""
        inner = ", ".join([INNER] * 63)
        self.assertEqual(self.proxies.client(PROXY, f"{CLIENT}, {inner}"), CLIENT)
        self.assertEqual(self.proxies.client(PROXY, f"{CLIENT}, {INNER}, {inner}"), INNER)

    def test_what_is_no_network(self) -> None:
        """It is told at start, with an example."""
        self.assertEqual(str(parse_network("10.1.2.3")), "10.1.2.3/32")
        self.assertEqual(str(parse_network("::ffff:10.0.0.0/104")), "10.0.0.0/8")
        for text in ("", "proxy.example", "10.0.0.1/8", "10.0.0.0/33"):
            with self.assertRaisesRegex(ValueError, r"10\.0\.0\.0/8"):
                parse_network(text)
