# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made anew by the openssl command into a folder of their own."""
import atexit
import pathlib
import shutil
import subprocess
import tempfile


def openssl(*arguments, **options):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, **options)


class Authority:
    """One that signs: ca.pem; each certificate is NAME.pem with its key in NAME.key."""

    def __init__(self, name="test"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foliot-certs-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.ca = str(self.folder / "ca.pem")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", str(self.folder / "ca.key"), "-out", self.ca, "-days", "30",
                "-subj", f"/CN={name} authority", "-addext", "basicConstraints=critical,CA:TRUE")

    def make(self, name, names="DNS:localhost,IP:127.0.0.1,IP:::1", days="30", key=None):
        """(certificate, key) files, signed by this authority. days may be negative: expired."""
        cert, key_file, ask = (str(self.folder / f"{name}.{end}") for end in ("pem", "key", "csr"))
        openssl("req", "-new", "-newkey", *(key or ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")),
                "-nodes", "-keyout", key_file, "-out", ask, "-subj", f"/CN={name}")
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        dates = ("-days", days)
        if int(days) < 0:  # x509 refuses an end before the start: one that was valid once
            return self.make_by_date(name, ask, extensions, key_file, "20200101000000Z",
                                     "20200201000000Z")
        openssl("x509", "-req", "-in", ask, "-CA", self.ca, "-CAkey", str(self.folder / "ca.key"),
                "-CAcreateserial", "-out", cert, "-extfile", str(extensions), *dates)
        return cert, key_file

    def make_by_date(self, name, ask, extensions, key_file, start, end):
        """Signed with dates of any kind, which only `openssl ca` can."""
        cert = str(self.folder / f"{name}.pem")
        index = self.folder / f"{name}.index"
        index.write_text("")
        (self.folder / f"{name}.serial").write_text("1000\n")
        config = self.folder / f"{name}.cnf"
        config.write_text(f"[ca]\ndefault_ca=x\n[x]\ndatabase={index}\nserial={self.folder}/{name}.serial\n"
                          f"new_certs_dir={self.folder}\ndefault_md=sha256\npolicy=p\n"
                          "[p]\ncommonName=supplied\n")
        openssl("ca", "-batch", "-config", str(config), "-in", ask, "-cert", self.ca, "-keyfile",
                str(self.folder / "ca.key"), "-out", cert, "-extfile", str(extensions), "-notext",
                "-startdate", start, "-enddate", end)
        return cert, key_file

    def make_early(self, name):
        """A certificate whose time has not come."""
        key_file, ask = str(self.folder / f"{name}.key"), str(self.folder / f"{name}.csr")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key_file, "-out", ask, "-subj", f"/CN={name}")
        extensions = self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=DNS:localhost\n")
        return self.make_by_date(name, ask, extensions, key_file, "21000101000000Z",
                                 "21010101000000Z")
