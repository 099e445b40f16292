"""Issues the certificates of one control plane: a certificate authority of its own, and what it signs.

Good for a test session, not for longer: keys lie unencrypted beside the logs and everything expires after a day.
"""

import dataclasses
import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = dt.timedelta(days=1)
_MAY_SIGN = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclasses.dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both as PEM files."""

    certificate: Path
    key: Path


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    """Write a private key as PKCS#8, which every component reads."""
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(pem)
    path.chmod(0o600)


def write_service_account_key(path: Path) -> None:
    """Make the key that signs service account tokens."""
    write_key(path, rsa.generate_private_key(public_exponent=65537, key_size=2048))


class Authority:
    """A certificate authority; what it issues lands in its directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dovetail-e2e-ca")])
        authority = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_MAY_SIGN, critical=True)
        )
        self.file = directory / "ca.crt"
        self.file.write_bytes(authority.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue_server(self, name: str, hosts: list[str]) -> KeyPair:
        """A serving certificate for loopback and the given host names."""
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(name, subject, x509.SubjectAlternativeName(names), ExtendedKeyUsageOID.SERVER_AUTH)

    def issue_client(self, user: str, group: str) -> KeyPair:
        """A client certificate; the API server reads the user from CN and the group from O."""
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        return self._issue(user, subject, None, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, name: str, subject: x509.Name, hosts: x509.SubjectAlternativeName | None, usage: x509.ObjectIdentifier
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts is not None:
            builder = builder.add_extension(hosts, critical=False)
        pair = KeyPair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        certificate = builder.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(pair.key, key)
        return pair

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))  # clocks that step back a little
            .not_valid_after(now + VALID_FOR)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
