"""Congestion controls and queue disciplines of your own, in Python.

They are asked where the built-in ones are asked, with the same values, and are some hundred times slower. What a method raises ends the run
and is raised by the call that runs it.
"""

from __future__ import annotations

from ._trunkline import Ack, Packet, Window

__all__ = ["CongestionControl", "QueueDiscipline"]


class CongestionControl:
    """The congestion control of one sender; made for each when its connection opens.

        class Reno(trunkline.CongestionControl):
            credit = 0

            def grow(self, window, ack, acked):
                self.credit += acked
                while self.credit >= window.cwnd:
                    self.credit -= window.cwnd
                    window.cwnd += self.mss

            def reduce(self, window, in_flight, signal):
                return min(in_flight, window.cwnd) / 2

        sim = trunkline.Simulation(exp, congestion_control={"bulk": Reno})

    Slow start, the repair of losses, pacing by the window and all timers are those of the experiment's TCP.
    """

    def __init__(self, mss: int) -> None:
        """`mss`: bytes of data in a segment."""
        self.mss = mss

    def grow(self, window: Window, ack: Ack, acked: int) -> None:
        """An acknowledgement in congestion avoidance, outside of recovery: sets `window.cwnd`. `acked` bytes count for it."""
        raise NotImplementedError(f"{type(self).__name__}.grow")

    def reduce(self, window: Window, in_flight: int, signal: str) -> float:
        """A congestion signal: `loss`, `ecn` or `timeout`. Gives the bytes of the slow-start threshold, which the window becomes; after a
        timeout it becomes one segment. `in_flight`: bytes that were sent and not acknowledged."""
        raise NotImplementedError(f"{type(self).__name__}.reduce")

    def observe(self, window: Window, ack: Ack) -> None:
        """Every acknowledgement outside of recovery, before `grow`, in slow start too. `window.ssthresh = window.cwnd` ends slow start."""

    def unused(self, now: float) -> None:
        """An acknowledgement that does not grow the window, because the sender does not use it all."""

    def undo(self) -> None:
        """The last reduction was spurious. Window and threshold of before are restored."""

    def idle(self, now: float, seconds: float) -> None:
        """The sender sent nothing for so long."""

    def pacing_rate(self, srtt: float | None) -> float | None:
        """The rate at which segments leave, in bit/s; None if the algorithm does not pace."""
        return None


class QueueDiscipline:
    """The rules of one queue: which packets wait, which are dropped or marked, and which is next. The packets stay with the simulator.

        class DropFront(trunkline.QueueDiscipline):
            def __init__(self, limit=100):
                super().__init__()
                self.waiting, self.limit = collections.deque(), limit

            def enqueue(self, packet):
                if len(self.waiting) == self.limit:
                    self.drop(self.waiting.popleft())
                self.waiting.append(packet)
                return True

            def dequeue(self, now):
                return self.waiting.popleft()

        sim = trunkline.Simulation(exp, queues={"wan": DropFront})
    """

    def __init__(self) -> None:
        self._verdicts: list[tuple[Packet, bool]] = []

    def enqueue(self, packet: Packet) -> bool:
        """A packet has come, at `packet.since`. True: it waits; False: it is dropped."""
        raise NotImplementedError(f"{type(self).__name__}.enqueue")

    def dequeue(self, now: float) -> Packet | None:
        """The packet to send, of those that wait; None if all that waited were dropped just now. Not asked if none waits."""
        raise NotImplementedError(f"{type(self).__name__}.dequeue")

    def drop(self, packet: Packet) -> None:
        """Drops a packet that waits."""
        self._verdicts.append((packet, True))

    def mark(self, packet: Packet) -> bool:
        """Marks a packet as having met congestion (RFC 3168). False, and without effect, if it cannot be marked."""
        if packet.ecn_capable:
            self._verdicts.append((packet, False))
        return packet.ecn_capable

    def _take_verdicts(self) -> list[tuple[Packet, bool]]:
        verdicts, self._verdicts = self._verdicts, []
        return verdicts
