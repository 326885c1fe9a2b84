"""Texts and single values as Lehr shows them.

A plan's digest covers values as they are shown, so each function here gives the very bytes
that its counterpart in Go gives (sdk/serve/render.go, strconv.Quote, time.Duration).
"""

import bisect
import decimal
import hashlib
import struct

from . import secret
from .printable import RANGES

MAX_TEXT = 4096  # Bytes of a reason that are sent.
MAX_VALUE = 1024  # Bytes of a value that are shown; a longer one ends in its digest.

_FIRST, _LAST = zip(*(tuple(int(end, 16) for end in pair.split("-")) for pair in RANGES.split()))
_ESCAPES = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v"}


def _is_print(code):
    place = bisect.bisect_right(_FIRST, code) - 1
    return place >= 0 and code <= _LAST[place]


def quote(value):
    """Quotes a str or bytes as Go's strconv.Quote does."""
    raw = value if isinstance(value, bytes) else secret.to_bytes(value)
    parts = []
    for character in raw.decode("utf-8", "surrogateescape"):
        code = ord(character)
        if character in '"\\':
            parts.append("\\" + character)
        elif 0xDC80 <= code <= 0xDCFF:  # A byte that is no text.
            parts.append("\\x%02x" % (code - 0xDC00))
        elif _is_print(code):
            parts.append(character)
        elif code in _ESCAPES:
            parts.append(_ESCAPES[code])
        elif code < 0x20 or code == 0x7F:
            parts.append("\\x%02x" % code)
        else:
            parts.append("\\u%04x" % code if code < 0x10000 else "\\U%08x" % code)
    return '"' + "".join(parts) + '"'


def shown(text):
    """Escapes control characters and what is no text; other text stays as it is."""
    if text.isascii() and text.isprintable() or all(_is_print(ord(c)) for c in text):
        return text
    return quote(text)[1:-1].replace('\\"', '"')


def sentence(text):
    """Makes what people read printable, without secrets, and not too long."""
    text = shown(secret.redact(str(text)))
    raw = text.encode()
    if len(raw) <= MAX_TEXT:
        return text
    return raw[: MAX_TEXT - 3].decode("utf-8", "ignore") + "…"


MAX_LINES = 200  # Lines of progress that Lehr keeps.


def progress(text):
    """Makes each line what sentence makes of one. Secrets are hidden first: they may have several lines."""
    lines = secret.redact(str(text)).rstrip("\r\n").split("\n")[-MAX_LINES:]
    return "\n".join(sentence(line.rstrip("\r")) for line in lines)


def clip(value):
    """Shortens a rendered value to whole characters and the digest of the whole."""
    raw = value.encode()
    if len(raw) <= MAX_VALUE:
        return value
    kept = raw[: MAX_VALUE - 64].decode("utf-8", "ignore")
    return "%s… (%d bytes, sha256 %s)" % (kept, len(raw), hashlib.sha256(raw).hexdigest()[:16])


def duration(nanoseconds):
    """Writes a duration as Go does: 1m30s, 1.5ms, 0s."""
    nanoseconds = max(-(1 << 63), min((1 << 63) - 1, nanoseconds))
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if rest < size * 1000:
            return sign + _fraction(rest, size) + unit
    minutes, rest = divmod(rest, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    text = _fraction(rest, 10**9) + "s"
    if hours or minutes:
        text = "%dm%s" % (minutes, text)
    return sign + ("%dh%s" % (hours, text) if hours else text)


def _fraction(value, size):
    whole, rest = divmod(value, size)
    digits = str(size + rest)[1:].rstrip("0") if rest else ""
    return "%d.%s" % (whole, digits) if digits else str(whole)


def timestamp(seconds, nanoseconds):
    """Writes a time as RFC 3339 in UTC, with as many digits as it has."""
    carry, nanoseconds = divmod(nanoseconds, 10**9)
    days, second = divmod(seconds + carry, 86400)
    # Civil days: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    era, of_era = divmod(days + 719468, 146097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + era * 400 + (month <= 2)
    fraction = ("." + "%09d" % nanoseconds).rstrip("0").rstrip(".")
    clock = "%02d:%02d:%02d" % (second // 3600, second // 60 % 60, second % 60)
    years = "-%04d" % -year if year < 0 else "%04d" % year
    return "%s-%02d-%02dT%s%sZ" % (years, month, day, clock, fraction)


def floating(value, is_single):
    """Writes a number as Go's %v does: the fewest digits that give the same number back."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    if is_single:
        for precision in range(9):
            text = "%.*e" % (precision, value)
            if struct.pack("f", float(text)) == struct.pack("f", value):
                break
    sign, digits, exponent = decimal.Decimal(text).as_tuple()
    digits = "".join(map(str, digits))
    point = len(digits) + exponent
    digits = digits.rstrip("0") or "0"
    if digits == "0":
        return "-0" if sign else "0"
    power = point - 1
    if power < -4 or power >= 6:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        text = "%se%s%02d" % (mantissa, "-" if power < 0 else "+", abs(power))
    elif point <= 0:
        text = "0." + "0" * -point + digits
    elif len(digits) <= point:
        text = digits + "0" * (point - len(digits))
    else:
        text = digits[:point] + "." + digits[point:]
    return ("-" if sign else "") + text
