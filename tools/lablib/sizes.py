"""Sizes as people write them."""

import re

from .error import LabError

UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def parse_size(text):
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if not match or match[2] not in UNITS:
        raise LabError(f"'{text}' is not a size; write it like 64MiB or 1GiB")
    return int(match[1]) * UNITS[match[2]]
