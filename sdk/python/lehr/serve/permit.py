"""Permits: what a push may do, and until when."""

import threading

from .resource import NoPermit, now

# D: how long a permit holds, in seconds from the sending of the request that it answers.
PERIOD = 4.0
# How often permits are asked for, and how often they are looked at. A push whose permit
# would run out before the next look ends at this one.
INTERVAL = 1.0
TICK = 0.25


class Permit:
    """The permit of one push. apply asks it before each effect."""

    def __init__(self, base, requested_at, renew):
        """Begins under the permit whose request was sent then; None: under none, which is
        waited for."""
        self._renew = renew
        self._changed = threading.Condition()
        self._wanted, self._covered = base, None if requested_at is None else base
        self._until = (now() if requested_at is None else requested_at) + PERIOD
        self._cause = ""

    def effect(self):
        """Returns when an effect may start now; raises NoPermit when the push is over."""
        with self._changed:
            while True:
                if self._cause:
                    raise NoPermit(self._cause)
                # A tick is left: this thread may be held up before the effect begins.
                if self._covered == self._wanted and now() < self._until - TICK:
                    return
                self._changed.wait(TICK)

    @property
    def is_ended(self):
        """Whether the push is over: what can be cancelled is to be cancelled."""
        return bool(self._cause)

    def wait(self, seconds):
        """Waits, and raises NoPermit as soon as the push is over."""
        with self._changed:
            if self._changed.wait_for(lambda: self._cause, seconds):
                raise NoPermit(self._cause)

    def cover(self, base):
        """Asks for a permit that names the base to which production moved, and waits for it."""
        with self._changed:
            self._wanted = base
        self._renew()
        self.effect()

    @property
    def base(self):
        """What the next request names."""
        return self._wanted

    def grant(self, base, requested_at):
        """Takes a permit whose request was sent at the time."""
        with self._changed:
            if base == self._wanted:
                self._covered = base
                self._until = max(self._until, requested_at + PERIOD)
                self._changed.notify_all()

    def expire(self, at):
        """Ends the push when its permit is about to run out."""
        if self._until - at < TICK:
            self.end("no permit: the last one ran out and Lehr gave no other")

    def end(self, cause):
        """Ends the push; the first cause counts."""
        with self._changed:
            self._cause = self._cause or cause
            self._changed.notify_all()
