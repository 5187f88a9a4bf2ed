from __future__ import annotations

import collections
import os
import signal
import threading
import time

import pytest

import trunkline as tl


class Reno(tl.CongestionControl):
    """As the built-in one: a segment for each window that is acknowledged, half after a loss."""

    credit = 0

    def grow(self, window: tl.Window, ack: tl.Ack, acked: int) -> None:
        price = max(window.cwnd // window.mss, 1) * window.mss
        if self.credit >= price:
            self.credit = 0
            window.cwnd += window.mss
        segments, self.credit = divmod(self.credit + acked, price)
        window.cwnd += segments * window.mss

    def reduce(self, window: tl.Window, in_flight: int, signal: str) -> float:
        assert signal in ("loss", "ecn", "timeout")
        self.credit = 0
        return min(in_flight, window.cwnd) // 2


class TailDrop(tl.QueueDiscipline):
    """As the built-in one."""

    def __init__(self, limit: int = 60) -> None:
        super().__init__()
        self.waiting: collections.deque[tl.Packet] = collections.deque()
        self.limit = limit

    def enqueue(self, packet: tl.Packet) -> bool:
        if len(self.waiting) == self.limit:
            return False
        self.waiting.append(packet)
        return True

    def dequeue(self, now: float) -> tl.Packet | None:
        return self.waiting.popleft()


@pytest.mark.parametrize("recovery", ["linux-6-reno", "bsd-4.4", "ns2-reno"])
def test_a_reno_in_python_is_the_built_in_one_to_the_byte(dumbbell: tl.Experiment, recovery: str) -> None:
    lossy = dumbbell.set("links.wan.loss", "0.1 %").set("traffic.agent.tcp", recovery)
    # Whatever the agent's own algorithm would be.
    ours = tl.Simulation(lossy, congestion_control={"agent": Reno}, watch=["agent.0.cwnd"])
    built_in = tl.Simulation(lossy, watch=["agent.0.cwnd"])
    windows = set()
    for step in range(1, 101):
        ours.run_until(step / 10)
        built_in.run_until(step / 10)
        window = ours.read()
        assert window == built_in.read(), step
        windows.add(window[0])
    assert ours.digest == built_in.digest
    assert len(windows) > 20, "it has moved"


def test_what_an_algorithm_is_told_adds_up(dumbbell: tl.Experiment) -> None:
    seen: list[tl.Ack] = []

    class Watching(Reno):
        def observe(self, window: tl.Window, ack: tl.Ack) -> None:
            assert window.mss == self.mss == 1448
            assert window.cwnd >= window.mss and window.ssthresh > 0
            seen.append(ack)

        def pacing_rate(self, srtt: float | None) -> float | None:
            return None if srtt is None else 2e6

    simulation = tl.Simulation(dumbbell, congestion_control={"agent": Watching}, watch=["agent.goodput"])
    simulation.run_until(8.0)
    (goodput,) = simulation.read()
    assert goodput is not None and goodput < 2e6, "it is paced"
    assert len(seen) > 500
    assert all(one.now <= other.now for one, other in zip(seen, seen[1:], strict=False))
    assert all(ack.min_rtt <= ack.srtt and ack.acked > 0 for ack in seen)
    assert all(ack.rtt is None or ack.rtt >= 0.02 for ack in seen)
    assert any(ack.delivery_rate is not None and ack.delivery_rate > 1e6 for ack in seen)


def test_a_tail_drop_in_python_is_the_built_in_one(dumbbell: tl.Experiment) -> None:
    for seed in (1, 2):
        ours = tl.Simulation(dumbbell, seed, queues={"wan": TailDrop})
        built_in = tl.Simulation(dumbbell, seed)
        assert ours.measure() == built_in.measure()
        assert ours.digest == built_in.digest


def test_a_discipline_drops_and_marks_what_waits(dumbbell: tl.Experiment) -> None:
    marked: list[bool] = []

    class DropFront(TailDrop):
        def enqueue(self, packet: tl.Packet) -> bool:
            if len(self.waiting) == self.limit:
                self.drop(self.waiting.popleft())
            self.waiting.append(packet)
            if len(self.waiting) > 20:
                marked.append(self.mark(packet))
            return True

    metrics = tl.Simulation(dumbbell, queues={"wan": lambda: DropFront(30)}).measure()
    assert metrics["wan.drops"] > 0 and metrics["all.goodput"] > 9e6
    assert marked and not any(marked), "without ECN nothing can be marked"
    marked.clear()
    text = dumbbell.to_toml() + '[tcp.marking]\npreset = "linux-6"\necn = true\n'
    ecn = tl.Experiment.parse(text).set("traffic.*.tcp", "marking")
    simulation = tl.Simulation(ecn, queues={"wan": lambda: DropFront(60)})
    assert simulation.measure()["wan.marks"] > 0 and any(marked)


def test_the_metrics_of_a_run_in_steps_are_those_of_lab_run(dumbbell: tl.Experiment) -> None:
    row = dumbbell.set("runs", 1).run().runs.to_dict()
    metrics = tl.Simulation(dumbbell).measure()
    assert metrics["all.goodput"] == row["all.goodput"][0]
    there = {name for name in row if not name.startswith("point.") and name in metrics}
    assert len(there) > 50
    assert all(row[name][0] == metrics[name] for name in there)
    begun = tl.Simulation(dumbbell)
    begun.run_for(1.0)
    with pytest.raises(tl.ExperimentError, match="not begun"):
        begun.measure()


class Wrong(Reno):
    """Gives back what the test says."""

    answer: object = None

    def reduce(self, window: tl.Window, in_flight: int, signal: str) -> float:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (float("nan"), ValueError, r"reduce\(\) is NaN; allowed: 0 to 2\^30"),
        (-1, ValueError, r"reduce\(\) is -1; allowed"),
        (None, TypeError, r"reduce\(\) is of type NoneType; allowed: int, float"),
        ("half", TypeError, r"reduce\(\) is of type str"),
    ],
)
def test_a_wrong_answer_ends_the_run(
    dumbbell: tl.Experiment, answer: object, error: type[Exception], text: str
) -> None:
    simulation = tl.Simulation(
        dumbbell, congestion_control={"agent": type("Given", (Wrong,), {"answer": answer})}
    )
    with pytest.raises(error, match=text):
        simulation.run_until(10.0)
    assert simulation.now < 10.0
    with pytest.raises(tl.RunError, match="was ended by an exception"):
        simulation.run_until(10.0)


def test_what_a_method_raises_is_raised_by_the_run(dumbbell: tl.Experiment) -> None:
    class Raising(Reno):
        def grow(self, window: tl.Window, ack: tl.Ack, acked: int) -> None:
            window.cwnd = float("nan")  # type: ignore[assignment]

    class Refusing(TailDrop):
        def dequeue(self, now: float) -> tl.Packet | None:
            raise ZeroDivisionError("mine")

    class Unfinished(tl.CongestionControl):
        pass

    class Hoarding(TailDrop):
        def dequeue(self, now: float) -> tl.Packet | None:
            return None

    class Again(TailDrop):
        last: tl.Packet | None = None

        def dequeue(self, now: float) -> tl.Packet | None:
            self.last = self.last or self.waiting.popleft()
            return self.last

    class Silent(TailDrop):
        def enqueue(self, packet: tl.Packet) -> bool:
            return None  # type: ignore[return-value]

    def control(made: object) -> dict[str, object]:
        return {"congestion_control": {"agent": made}}

    def queue(made: object) -> dict[str, object]:
        return {"queues": {"wan": made}}

    for given, error, text in [
        (control(Raising), ValueError, "cwnd is NaN"),
        (control(Unfinished), NotImplementedError, "Unfinished"),
        (control(lambda mss: 7), TypeError, "int for a sender; allowed: a trunkline.CongestionControl"),
        (control(lambda: 7), TypeError, "argument"),
        (queue(Refusing), ZeroDivisionError, "mine"),
        (queue(Hoarding), ValueError, "dequeue.. gave None while 1 packets wait"),
        (queue(Again), ValueError, "gave packet 0, which does not wait"),
        (queue(Silent), ValueError, "enqueue.. gave None; allowed: True"),
    ]:
        for length in (0.5, 10.0):
            simulation = tl.Simulation(dumbbell, **given)  # type: ignore[arg-type]
            with pytest.raises(error, match=text):
                while simulation.now < 10.0:
                    simulation.run_for(length)
        with pytest.raises(error, match=text):
            tl.Simulation(dumbbell, **given).measure()  # type: ignore[arg-type]
    unnamed: list[tuple[dict[str, object], type[Exception], str]] = [
        (control(3), TypeError, "can be called"),
        (queue(3), TypeError, "can be called"),
        (queue(dict), TypeError, "allowed: a trunkline.QueueDiscipline"),
        ({"queues": {"lan": TailDrop}}, tl.ExperimentError, "is no link; allowed: near, wan, far"),
        ({"congestion_control": {"web": Reno}}, KeyError, "no traffic over TCP; allowed: agent, other"),
    ]
    for given, wrong, text in unnamed:
        with pytest.raises(wrong, match=text):
            tl.Simulation(dumbbell, **given)  # type: ignore[arg-type]


def test_ctrl_c_ends_a_measurement(dumbbell: tl.Experiment) -> None:
    # Who runs the tests in the background has told them to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    simulation = tl.Simulation(dumbbell.set("duration", "100000 s"))
    began = time.monotonic()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        simulation.measure()
    assert time.monotonic() - began < 20
    with pytest.raises(tl.RunError, match="was ended by an exception"):
        simulation.run_for(1.0)
