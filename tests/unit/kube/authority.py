"""Certificates made for a test by the openssl command: an authority, and whom it vouches for."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


class Authority:
    """A certificate authority in a folder; `cert` is its own certificate."""

    def __init__(self, folder: Path, name: str) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("needs the openssl command")
        self._folder = folder
        self.cert = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        self._run("req", "-x509", *self._new(self._key), "-out", self.cert, "-subj", f"/CN={name}", "-days", "2")

    def issue(self, name: str) -> tuple[str, str]:
        """The PEM texts of a certificate and its key, for a client `name` or for a server on 127.0.0.1."""
        request, key, cert, more = (self._folder / f"{name}.{end}" for end in ("csr", "pem", "crt", "ext"))
        more.write_text("subjectAltName=IP:127.0.0.1\n")
        self._run("req", *self._new(key), "-out", request, "-subj", f"/CN={name}")
        signing = ("-CA", self.cert, "-CAkey", self._key, "-CAcreateserial", "-extfile", more, "-days", "2")
        self._run("x509", "-req", "-in", request, "-out", cert, *signing)
        return cert.read_text(), key.read_text()

    def server(self, *clients: Authority) -> ssl.SSLContext:
        """For a server that asks its clients for certificates of these authorities."""
        self.issue("server")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._folder / "server.crt", self._folder / "server.pem")
        for authority in clients:
            tls.load_verify_locations(authority.cert)
        tls.verify_mode = ssl.CERT_OPTIONAL if clients else ssl.CERT_NONE
        return tls

    @staticmethod
    def _new(key: Path) -> tuple[str | Path, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key)

    @staticmethod
    def _run(*arguments: str | Path) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
