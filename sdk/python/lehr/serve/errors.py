"""Exceptions that an author raises, and those that he is to expect."""


class Error(Exception):
    """An error whose words are for people. OSError and ValueError are told likewise; any
    other exception is told as a defect of the plugin, with its stack in the log."""


class Retryable(Error):
    """Raised by apply: worth trying again soon. After other errors Lehr waits for longer."""


class Busy(Error):
    """Raised by read or apply: the target is too busy. Lehr asks no sooner than after the
    seconds that are given, and not much later; 5 minutes at most count."""

    def __init__(self, reason, retry_after):
        super().__init__(reason)
        self.retry_after = retry_after


class Stale(Error):
    """Raised by apply: the provider refused a compare-and-set, and nothing was changed."""


class Outranked(Error):
    """Raised by apply: a target of class F refused the push's token, for it knows a higher one."""

    def __init__(self, known_token):
        super().__init__("the target knows the fencing token %d, and refuses lower ones" % known_token)
        self.known_token = known_token


class NoPermit(Error):
    """Raised by a permit: nothing more may be done for this push."""


class MemoRefused(Retryable):
    """Raised by Change.remember: the memo is not kept."""


class NeverKept(MemoRefused):
    """The memo is one that Lehr never keeps: to try again changes nothing."""
