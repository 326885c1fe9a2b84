"""Memos: what Lehr keeps for an asset. The limits and the words are those of Go
(internal/ground/intent/memo.go, sdk/serve/memo.go)."""

from .resource import Error, NeverKept
from .text import quote, shown

MAX_BYTES = 16 << 10  # Of one memo.
MAX_KEY_BYTES = 512  # Of the resource key of one.
MAX_PER_ASSET = 4  # Real things of one asset that have a memo.


def problem(key, memo):
    """Returns why Lehr keeps no such memo; empty: it may."""
    if not key:
        return "a memo names no resource key (name the real thing that it is of, as the State of Read does)"
    size = len(key.encode("utf-8", "surrogatepass"))
    if size > MAX_KEY_BYTES:
        return "the resource key of a memo has %d bytes, at most %d are allowed" % (size, MAX_KEY_BYTES)
    if shown(key) != key:
        return "the resource key of a memo is not printable text: %s" % quote(key)
    if len(memo) > MAX_BYTES:
        return (
            "the memo of %s has %d bytes, at most %d are kept"
            " (a memo holds only what production cannot tell, such as the number of a run that was started)"
        ) % (key, len(memo), MAX_BYTES)
    return ""


def check(key, memo):
    """Raises NeverKept for a memo that Lehr does not keep."""
    why = problem(key, memo)
    if why:
        raise NeverKept("Lehr did not keep the memo: " + why)


def decode(asset, handed):
    """Returns what Lehr handed with an asset, by resource key in their order. Raises Error for
    what is no memo of the asset: it is not acted on."""
    if len(handed) > MAX_PER_ASSET:
        raise Error("Lehr handed %d memos of %s, at most %d are kept: a defect of Lehr" % (len(handed), asset, MAX_PER_ASSET))
    memos = {}
    for one in handed:
        if one.asset != asset:
            raise Error("Lehr handed a memo of %s with %s: a defect of Lehr" % (quote(one.asset), asset))
        why = problem(one.resource_key, one.memo)
        if why:
            raise Error("reading the memos of %s: %s" % (asset, why))
        if not one.memo or one.resource_key in memos:
            raise Error("Lehr handed two memos of %s and %s, or an empty one: a defect of Lehr" % (asset, one.resource_key))
        memos[one.resource_key] = one.memo
    return dict(sorted(memos.items(), key=lambda item: item[0].encode()))
