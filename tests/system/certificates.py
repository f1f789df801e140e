"""An authority of a test's own, and certificates that it signs, as PEM files."""

import subprocess

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
DAYS = ("-days", "2")


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Authority:
    """Its files lie in `directory`, which is made."""

    def __init__(self, directory):
        directory.mkdir()
        self.directory = directory
        self.certificate = directory / "ca.pem"
        self.key = directory / "ca.key"
        openssl("req", "-x509", *NEW_KEY, *DAYS, "-subj", "/CN=an authority", "-keyout", self.key, "-out", self.certificate)

    def issue(self, name):
        """A certificate for 127.0.0.1, as server and as client, and its key: the two files."""
        request, extensions, certificate, key = (self.directory / f"{name}.{end}" for end in ("csr", "ext", "pem", "key"))
        extensions.write_text("subjectAltName = IP:127.0.0.1\nextendedKeyUsage = serverAuth, clientAuth\n", encoding="ascii")
        openssl("req", "-new", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", *DAYS, "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-extfile", extensions, "-out", certificate)
        key.chmod(0o600)
        return certificate, key
