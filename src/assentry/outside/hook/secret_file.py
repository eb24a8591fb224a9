"""The files of secrets, by their names: a rule asks before they are read, and a preview does not show their content."""

from __future__ import annotations

import re

NAMES = (
    r"\.env[^/]*|[^/]*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc)|id_(rsa|dsa|ecdsa|ed25519)[^/]*|id_[a-z0-9_]+"
    r"|\.?(netrc|npmrc|pypirc|pgpass)|[^/]*(secret|credential|password|token)[^/]*|\.htpasswd|kubeconfig"
)
FOLDERS = r"\.(aws|azure|docker|gnupg|kube|ssh)"
SECRET_FILE = rf"(?i)(^|/)(({NAMES})$|{FOLDERS}/)"
"""A pattern that is found in the path of a file of secrets."""


def is_secret_file(path: str) -> bool:
    """Return True if the name of a file, or of a folder that it is in, is one of secrets."""
    return re.search(SECRET_FILE, path.replace("\\", "/")) is not None
