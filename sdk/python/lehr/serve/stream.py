"""What the three streams have in common: a queue of what is sent, and bounded threads."""

import queue
import threading

import grpc

# How many looks, and how many pushes, are under way at a time.
MAX_CALLS = 200


class Calls:
    """Runs what an author wrote in threads of its own, so that a call that waits holds up no
    other; no more than a number of them."""

    def __init__(self, most=MAX_CALLS):
        self._most, self._running = most, 0
        self._changed = threading.Condition()

    def start(self, function, *arguments):
        """Returns whether it was started; False: too many are under way."""
        with self._changed:
            if self._running >= self._most:
                return False
            self._running += 1
        threading.Thread(target=self._run, args=(function, arguments), daemon=True).start()
        return True

    def _run(self, function, arguments):
        try:
            function(*arguments)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wait(self, seconds):
        """Waits until none is under way, but no longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0, seconds)


class Stream:
    """One stream with Lehr. send may be called from any thread; take is given each message."""

    def __init__(self, context):
        self._outgoing = queue.SimpleQueue()
        if not context.add_callback(self.end):
            self.end()

    def send(self, message):
        self._outgoing.put(message)

    def end(self):
        self._outgoing.put(None)

    def serve(self, requests):
        """Takes messages in a thread of its own, and yields what is to be sent."""
        threading.Thread(target=self._take_all, args=(requests,), daemon=True).start()
        try:
            while (message := self._outgoing.get()) is not None:
                yield message
        finally:
            self.close()

    def _take_all(self, requests):
        try:
            for request in requests:
                self.take(request)
        except grpc.RpcError:
            pass  # The stream was cancelled, or broke.
        finally:
            self.end()

    def take(self, message):
        """Handles a message of Lehr's."""

    def close(self):
        """Is called when the stream has ended."""
