"""Where to dial, and whom to trust there.

Twisted's own host name check lets a certificate without subjectAltName pass for any name (Twisted
26.10.0 with service-identity 26.1.0).  So the name is checked here, when the TLS handshake is
complete and before anything of ours is sent; OpenSSL checks the chain.  Who the peer really is
comes from Noise in any case.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Any, ClassVar, cast
from warnings import catch_warnings, simplefilter

from attrs import define, field, frozen
from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning
from OpenSSL import SSL
from service_identity import VerificationError
from service_identity.exceptions import CertificateError
from service_identity.pyopenssl import verify_hostname, verify_ip_address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.error import ConnectingCancelledError, DNSLookupError, UnknownHostError
from twisted.internet.interfaces import (
    IDelayedCall,
    IOpenSSLClientConnectionCreator,
    IStreamClientEndpoint,
)
from twisted.internet.ssl import Certificate, CertificateOptions, trustRootFromCertificates
from twisted.internet.ssl import platformTrust as platform_trust
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.connection_url import Address, parse_address
from garcon.errors import StartupError
from garcon.link.causes import Cause, Stage
from garcon.link.proxy_route import Proxy, ProxyRoutes
from garcon.link.resolving import Resolving
from garcon.link.tunnel import ConnectEndpoint, ProxyFailed
from garcon.link.websocket import LaneClientFactory
from garcon.link.wire import IAttempt, IDialler, IWireUser

_UNLIMITED: Any = None
"""An endpoint's own timeout (its type says float): one deadline, the opening's, is enough."""


class Trust:
    """Which certificate authorities a dialling process believes: the platform's, or given ones
    only.
    """

    def __init__(self, authorities: list[x509.Certificate] | None = None) -> None:
        self._authorities = authorities
        self._verifying: CertificateOptions | None = None

    @classmethod
    def from_environment(cls, cert_file: str | None, cert_dir: str | None) -> Trust:
        """Return the trust that ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` ask for: theirs and no
        other.

        Neither set (or empty) means the platform's.  Raises `StartupError` for files that cannot be
        read.
        """
        if not cert_file and not cert_dir:
            return cls()
        authorities = []
        if cert_file:
            authorities += _authorities(cert_file, "SSL_CERT_FILE")
        for directory in (cert_dir or "").split(os.pathsep):
            if directory:
                authorities += _authorities_in(directory)
        return cls(authorities)

    def verifying(self) -> CertificateOptions:
        """Return TLS options that check the server's chain."""
        if self._verifying is None:
            self._verifying = CertificateOptions(
                trustRoot=platform_trust()
                if self._authorities is None
                else trustRootFromCertificates(
                    [Certificate.loadPEM(_pem(c)) for c in self._authorities]
                )
            )
        return self._verifying


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _authorities(path: str, name: str) -> list[x509.Certificate]:
    try:
        with open(path, "rb") as file:
            content = file.read()
        with catch_warnings():
            # An old root of a platform's bundle is not the operator's fault.
            simplefilter("ignore", CryptographyDeprecationWarning)
            return x509.load_pem_x509_certificates(content)
    except OSError as error:
        raise StartupError(f"cannot read {name} {path}: {error.strerror}") from None
    except ValueError:
        raise StartupError(f"{name} {path} holds no certificate in PEM form") from None


def _authorities_in(directory: str) -> list[x509.Certificate]:
    """Return the certificates in a directory; files of other kinds may lie there too."""
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise StartupError(f"cannot read SSL_CERT_DIR {directory}: {error.strerror}") from None
    found = []
    for name in names:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            try:
                found += _authorities(path, "SSL_CERT_DIR")
            except StartupError:
                continue
    return found


@implementer(IOpenSSLClientConnectionCreator)
@define(eq=False)
class TlsConnections:
    """Makes the TLS client connection of one attempt, and remembers why its chain was refused."""

    _options: CertificateOptions
    _host: str
    doubt: str | None = None

    _UNKNOWN: ClassVar[frozenset[int]] = frozenset(
        {
            SSL.X509VerificationCodes.ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
            SSL.X509VerificationCodes.ERR_SELF_SIGNED_CERT_IN_CHAIN,
            SSL.X509VerificationCodes.ERR_UNABLE_TO_GET_ISSUER_CERT,
            SSL.X509VerificationCodes.ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            SSL.X509VerificationCodes.ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
        }
    )

    def clientConnectionForTLS(self, protocol: object) -> SSL.Connection:
        """Return one; addresses are never sent as a server name."""
        connection = SSL.Connection(self._options.getContext(), None)
        if not _is_address(self._host):
            connection.set_tlsext_host_name(self._host.encode("ascii"))
        mode = connection.get_verify_mode()
        if mode != SSL.VERIFY_NONE:
            connection.set_verify(mode, self._judged)
        return connection

    def explain(self) -> str | None:
        """Say why OpenSSL refused the server's chain, where there is something better to say."""
        return self.doubt

    def _judged(
        self, connection: SSL.Connection, certificate: object, error: int, depth: int, good: int
    ) -> bool:
        """Take OpenSSL's word for it; its later error says only that verification failed."""
        if not good and self.doubt is None:
            self.doubt = self._words(error, depth)
        return bool(good)

    def _words(self, error: int, depth: int) -> str | None:
        whose = "the server's certificate" if depth == 0 else "a certificate of the server's chain"
        if error in self._UNKNOWN:
            return (
                "the server's certificate comes from an authority that is not trusted here"
                " (SSL_CERT_FILE names a private one)"
            )
        if error == SSL.X509VerificationCodes.ERR_CERT_HAS_EXPIRED:
            return f"{whose} has expired"
        if error == SSL.X509VerificationCodes.ERR_CERT_NOT_YET_VALID:
            return f"{whose} is not valid yet (is a clock wrong?)"
        return None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def judge_name(connection: SSL.Connection, host: str) -> str | None:
    """Say why a server's certificate is not one for `host`, or None when it is."""
    try:
        if _is_address(host):
            verify_ip_address(connection, host)
        else:
            verify_hostname(connection, host)
    except VerificationError:
        return "the server's certificate is for another name"
    except CertificateError:
        return "the server's certificate names no host (it has no subjectAltName)"
    except ValueError:
        return "the address holds no name that a certificate could be for"
    return None


@implementer(IDialler)
@frozen
class DialTarget:
    """An address to dial, without its secret; both lanes use the same one.

    The proxy that `proxies` name for it is used, and is always verified; `allow_unverified_tls` is
    about the address itself.
    """

    url: str
    trust: Trust = field(factory=Trust)
    allow_unverified_tls: bool = False
    proxies: ProxyRoutes = field(factory=ProxyRoutes)
    _address: Address = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_address", parse_address(self.url.partition("#")[0]))
        object.__setattr__(self, "url", self._address.url)

    @property
    def is_proxied(self) -> bool:
        """See `IDialler`."""
        return self._proxy is not None

    @property
    def _proxy(self) -> Proxy | None:
        address = self._address
        return self.proxies.to(address.host, address.port, is_tls=address.is_tls)

    def dial(self, reactor: Any, user: IWireUser, close_time: float) -> IAttempt:
        """See `IDialler`.  The one deadline is the user's own (`LinkSettings.connect_time`)."""
        address = self._address
        connections = TlsConnections(self._tls(), address.host) if address.is_tls else None
        factory = LaneClientFactory(
            reactor,
            user,
            close_time,
            address.host,
            address.port,
            address.target,
            address.is_tls,
            self._judge,
            None if connections is None else connections.explain,
        )
        proxy = self._proxy
        attempt = _Attempt(reactor, factory, user, Stage.NAME if proxy is None else Stage.PROXY)
        endpoint: Any
        if proxy is None:
            resolving = Resolving(reactor, attempt.resolved)
            endpoint = HostnameEndpoint(resolving, address.host, address.port, timeout=_UNLIMITED)
        else:
            endpoint = self._through(reactor, proxy)
        if connections is not None:
            endpoint = wrapClientTLS(connections, endpoint)
        attempt.begin(endpoint)
        return attempt

    def _through(self, reactor: Any, proxy: Proxy) -> IStreamClientEndpoint:
        way: Any = HostnameEndpoint(reactor, proxy.host, proxy.port, timeout=_UNLIMITED)
        if proxy.is_tls:
            way = wrapClientTLS(TlsConnections(self.trust.verifying(), proxy.host), way)
        return ConnectEndpoint(
            way,
            self._address.host,
            self._address.port,
            proxy.authorization,
            is_tls=proxy.is_tls,
            judge=lambda transport: judge_name(transport.getHandle(), proxy.host),
        )

    def _tls(self) -> CertificateOptions:
        return CertificateOptions() if self.allow_unverified_tls else self.trust.verifying()

    def _judge(self, transport: Any) -> str | None:
        if self.allow_unverified_tls:
            return None
        return judge_name(transport.getHandle(), self._address.host)


@implementer(IAttempt)
class _Attempt:
    """One connection being made, and then made."""

    def __init__(
        self, reactor: Any, factory: LaneClientFactory, user: IWireUser, stage: Stage
    ) -> None:
        self._reactor = reactor
        self._factory = factory
        self._user = user
        self._endpoint: Any = None
        self._connecting: Deferred[Any] | None = None
        self._timer: IDelayedCall | None = None
        self._reached = stage

    def resolved(self) -> None:
        """The name has been resolved, to whatever."""
        self._reached = Stage.TCP

    def begin(self, endpoint: IStreamClientEndpoint) -> None:
        """Connect in the reactor's next turn."""
        self._endpoint = endpoint
        self._timer = self._reactor.callLater(0, self._begin)

    @property
    def stage(self) -> str:
        """See `IAttempt`."""
        made = self._factory.made
        if made is None:
            return self._reached
        return Stage.UPGRADE if made.has_begun else Stage.TLS

    def _begin(self) -> None:
        self._timer = None
        self._connecting = d = self._endpoint.connect(self._factory)
        d.addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        cause = Cause.CONNECT_FAILED
        if failure.check(CancelledError, ConnectingCancelledError):
            text = "the attempt was given up"
        elif failure.check(ProxyFailed):
            cause, text = Cause.PROXY_FAILED, cast(ProxyFailed, failure.value).text
        elif failure.check(DNSLookupError, UnknownHostError):
            self._reached = Stage.NAME
            cause, text = Cause.NAME_UNKNOWN, "the address's name could not be resolved"
        else:
            text = f"the address could not be reached ({type(failure.value).__name__})"
        self._user.wire_closed(cause, text)

    def abandon(self) -> None:
        """See `IAttempt`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._user.wire_closed(Cause.CONNECT_FAILED, "the attempt was given up")
        elif self._factory.made is not None:
            self._factory.made.abort()
        elif self._connecting is not None:
            self._connecting.cancel()
