"""Conversion of command-line arguments to values."""

from __future__ import annotations

import argparse
import ipaddress
import re
from typing import Any, get_args

from ..core.digest import BadJSON, parse
from ..core.number import LONGEST_SECONDS
from ..core.run import Status
from ..core.wording import described
from ..store.moment import read_moment

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def duration(text: str) -> float:
    """Return seconds from text such as `90d`, `12h`, `30m`, `45s` or `1.5`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{described(text, 40)} is no time; write 90d, 12h, 30m or 45s")
    seconds = float(found[1]) * SECONDS[found[2]]
    if seconds > LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{described(text, 40)} is longer than 100 years")
    return seconds


def duration_as_given(seconds: float) -> str:
    """Return seconds in the largest unit that leaves no fraction: `7d`, `36h`, `1.5s`."""
    unit = next((unit for unit in "dhm" if seconds and seconds % SECONDS[unit] == 0), "s")
    return f"{seconds / SECONDS[unit]:.12g}{unit}"


def day_or_time(text: str) -> int:
    """Return milliseconds since 1970 from a day or a time such as `2026-11-18` or `2026-11-18T09:30`, in UTC."""
    try:
        return read_moment(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{described(text, 40)} is no day; write 2026-11-18, or 2026-11-18T09:30 (UTC)"
        ) from None


def port(text: str) -> int:
    """Return the number of a port."""
    if not re.fullmatch(r"\d{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{described(text, 40)} is no port, from 0 to 65535")
    return int(text)


def prefix(text: str) -> str:
    """Return the prefix of addresses, `/approvals`, from text with or without the slashes around it."""
    parts = text.strip("/")
    if parts and not re.fullmatch(r"[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*", parts):
        raise argparse.ArgumentTypeError(f"{described(text, 40)} is no prefix; write a path, such as /approvals")
    return f"/{parts}" if parts else ""


def statuses(text: str) -> tuple[str, ...]:
    """Return statuses from text such as `done,closed`."""
    known, given = get_args(Status), tuple(text.split(","))
    for each in given:
        if each not in known:
            raise argparse.ArgumentTypeError(f"{described(each, 40)} is no status; there are {', '.join(known)}")
    return given


def json_value(text: str) -> tuple[Any]:
    """Return any JSON value, in a tuple because null is a value too."""
    try:
        return (parse(text),)
    except BadJSON as error:
        raise argparse.ArgumentTypeError(f"this is not JSON: {error}") from None


def json_object(text: str) -> tuple[Any]:
    """Return a JSON object, in a tuple."""
    [value] = json_value(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('this is not a JSON object, such as {"amount": 5}')
    return (value,)


def network(text: str) -> str:
    """Return an IP address or a network, such as 10.0.0.0/8."""
    try:
        return str(ipaddress.ip_network(text, strict=False)) if "/" in text else str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r:.80} is no IP address, such as 127.0.0.1, and no network, such as 10.0.0.0/8"
        ) from None
