"""Throw-away certificate authorities and server certificates, as PEM files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = timedelta(days=2)


@frozen
class Authority:
    """A certificate authority that lives in a directory; `certificate` is what clients are to
    trust.
    """

    directory: Path
    certificate: Path
    _key: ec.EllipticCurvePrivateKey
    _issuer: x509.Name

    def issue(
        self, *hosts: str, alternative_names: bool = True, age: timedelta = timedelta()
    ) -> tuple[Path, Path]:
        """Write a certificate for `hosts` (names or addresses) and its key; return both paths.

        Without `alternative_names` the first host is only the common name, as old certificates had
        it.  One of a large `age` has expired; one of a negative age is for later.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(hosts[0]), self._issuer, key, age).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        if alternative_names:
            names = x509.SubjectAlternativeName([_general(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        stem = hosts[0].replace(":", "_") + ("" if alternative_names else "-without-names")
        return _write(self.directory, stem, builder.sign(self._key, hashes.SHA256()), key)


def make_authority(directory: Path, name: str = "authority") -> Authority:
    """Make an authority with its files in `directory`, which is made too."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"throw-away {name}")
    builder = (
        _builder(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    certificate, _ = _write(directory, name, builder.sign(key, hashes.SHA256()), key)
    return Authority(directory, certificate, key, subject)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    age: timedelta = timedelta(),
) -> x509.CertificateBuilder:
    now = datetime.now(UTC) - age
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFE)
    )


def _write(
    directory: Path, stem: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:
    certificate_path, key_path = directory / f"{stem}.crt", directory / f"{stem}.key"
    certificate_path.write_bytes(certificate.public_bytes(Encoding.PEM))
    key_path.touch(mode=0o600)
    key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate_path, key_path
