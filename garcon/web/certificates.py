"""The certificate and key of a TLS listener: read once, at start, and checked at once."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from OpenSSL import SSL, crypto
from twisted.internet.ssl import CertificateOptions

from garcon.errors import StartupError

_LARGEST = 1024 * 1024


def server_identity(certificate_path: str, key_path: str) -> CertificateOptions:
    """Return what a TLS listener shows; `StartupError` says what is wrong with the two files.

    The certificate file holds the listener's own certificate first, then its intermediates.
    """
    chain = _chain(certificate_path)
    content = _content(key_path)
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise StartupError(f"the private key {key_path} is encrypted") from None
    except Exception:
        # The library's errors are many and say nothing to an operator.
        raise StartupError(f"{key_path} holds no private key in PEM form") from None
    if _form(chain[0].public_key()) != _form(key.public_key()):
        raise StartupError(f"the private key {key_path} does not belong to {certificate_path}")
    try:
        options = CertificateOptions(
            privateKey=crypto.PKey.from_cryptography_key(key),  # type: ignore[arg-type]  # any kind
            certificate=crypto.X509.from_cryptography(chain[0]),
            extraCertChain=[crypto.X509.from_cryptography(c) for c in chain[1:]],
        )
        # The context is made now, so that a file OpenSSL refuses is found now.
        options.getContext()
    except (SSL.Error, TypeError, ValueError):
        raise StartupError(f"TLS cannot use {certificate_path} with {key_path}") from None
    return options


def _chain(path: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_content(path))
    except ValueError:
        raise StartupError(f"{path} holds no certificate in PEM form") from None


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror or error}") from None


def _form(key: object) -> bytes:
    public: bytes = key.public_bytes(  # type: ignore[attr-defined]  # every key of the library has it
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return public
