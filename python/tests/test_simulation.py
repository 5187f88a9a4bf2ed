from __future__ import annotations

import random

import pytest

import trunkline as tl


def test_steps_of_any_length_give_the_digest_of_one_go(dumbbell: tl.Experiment) -> None:
    whole = dumbbell.run().runs.to_dict()["digest"]
    steps = random.Random(7)
    for place, (point, seed) in enumerate([("1", 1), ("1", 2), ("3", 1), ("3", 2)]):
        simulation = tl.Simulation(dumbbell, seed, point={"others": point}, watch=["wan.queue.packets"])
        while simulation.now < simulation.duration:
            simulation.run_until(min(simulation.now + steps.uniform(0.0, 1.7), simulation.duration))
            assert (simulation.read()[0] or 0.0) <= 60
        assert simulation.digest == whole[place]


def test_what_is_watched_is_what_a_series_records(dumbbell: tl.Experiment) -> None:
    series = dumbbell.set("runs", 1).run().series
    assert series is not None
    columns = series.to_dict()
    rows = zip(columns["point.others"], columns["name"], columns["value"], strict=True)
    recorded = [value for others, name, value in rows if others == 1.0 and name == "agent.0.cwnd"]
    simulation = tl.Simulation(dumbbell, watch=["agent.0.cwnd", "agent.goodput"])
    watched = []
    for second in range(1, 11):
        simulation.run_until(second)
        window, goodput = simulation.read()
        watched.append(window)
        assert goodput is not None and 0 < goodput < 10e6
    assert watched == recorded


def test_a_link_changes_while_it_runs(dumbbell: tl.Experiment) -> None:
    simulation = tl.Simulation(dumbbell, watch=["all.goodput", "agent.0.srtt", "all.goodput"])
    simulation.run_until(5)
    simulation.read()
    rates = []
    for rate in ("2 Mbit/s", 20_000_000):
        simulation.set_rate("wan", rate)
        simulation.run_for(10)
        simulation.read()
        simulation.run_for(10)
        rates.append(simulation.read()[0])
    assert rates[0] == pytest.approx(1.9e6, rel=0.05) and rates[1] == pytest.approx(19.1e6, rel=0.08)
    simulation.set_delay("wan.back", "200 ms")
    simulation.run_for(5)
    rtt = simulation.read()[1]
    assert rtt is not None and rtt > 0.2
    simulation.set_loss("wan", 1.0)
    simulation.run_for(1)
    simulation.read()
    simulation.run_for(5)
    assert simulation.read()[0] == 0.0


def test_a_window_that_is_held_is_the_rate(dumbbell: tl.Experiment) -> None:
    alone = dumbbell.set("sweep", {}).set("traffic.other.enabled", False)
    simulation = tl.Simulation(alone, watch=["agent.goodput", "agent.0.retransmissions", "agent.0.cwnd"])
    assert not simulation.set_window("agent", 14_480), "before it begins there is no connection"
    simulation.run_for(1)
    assert simulation.set_window("agent", 10 * 1448)
    simulation.run_for(1)
    simulation.read()
    simulation.run_for(5)
    # 10 segments in 20.4 ms, in the time that a segment takes on the link, and in that of the second of which an acknowledgement waits.
    goodput, retransmissions, window = simulation.read()
    assert goodput == pytest.approx(10 * 1448 * 8 / (0.0204 + 2 * 1514 * 8 / 10e6), rel=0.01)
    assert (retransmissions, window) == (0.0, 14_480.0)
    # Beyond the path and its queue of 60 packets: losses, and the window stays.
    simulation.set_window("agent", 200 * 1448)
    simulation.run_for(5)
    goodput, retransmissions, window = simulation.read()
    assert goodput is not None and goodput > 8e6 and retransmissions is not None and retransmissions > 0


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda s: s.run_until(0.5), ValueError, "allowed: 1 s and later"),
        (lambda s: s.run_for(-1), ValueError, "allowed"),
        (lambda s: s.run_until(float("nan")), ValueError, "time is NaN; allowed: 0 to 10000000 s"),
        (lambda s: s.set_rate("lan", 5), tl.ExperimentError, "is no link; allowed: near, wan, far"),
        (lambda s: s.run_for(1e300), ValueError, "allowed: 0 to 10000000 s"),
        (lambda s: s.set_rate("wan", -1), ValueError, "rate is -1; allowed: 0 to 1e13"),
        (lambda s: s.set_rate("wan", float("inf")), ValueError, "rate is inf"),
        (lambda s: s.set_rate("wan", None), TypeError, "None"),
        (lambda s: s.set_rate("wan", "fast"), ValueError, "is no rate"),
        (lambda s: s.set_delay("wan", "1 day"), ValueError, "allowed"),
        (lambda s: s.set_loss("wan", 2), ValueError, "loss is 2; allowed: 0 to 1"),
        (lambda s: s.set_window("nobody", 1), tl.ExperimentError, "is no traffic; allowed: agent, other"),
        (lambda s: s.set_window("agent", 1, user=5), tl.ExperimentError, "has no user 5"),
    ],
)
def test_what_makes_no_sense_is_refused(dumbbell: tl.Experiment, call, error, said) -> None:  # type: ignore[no-untyped-def]
    simulation = tl.Simulation(dumbbell)
    simulation.run_for(1)
    with pytest.raises(error, match=said):
        call(simulation)
    simulation.run_for(0.1)


def test_names_that_are_not_there(dumbbell: tl.Experiment) -> None:
    with pytest.raises(tl.ExperimentError, match="links: near, wan, far"):
        tl.Simulation(dumbbell, watch=["wan.queue"])
    for seed in (-1, 1 << 32, 0.5, "one"):
        with pytest.raises(ValueError, match="seed is .*; allowed: whole numbers from 0 to 4294967295"):
            tl.Simulation(dumbbell, seed)  # type: ignore[arg-type, unused-ignore]
    with pytest.raises(KeyError, match="others=9"):
        tl.Simulation(dumbbell, point={"others": "9"})


def goodputs(simulation: tl.Simulation) -> list[float]:
    return [value or 0.0 for value in simulation.read()]


def test_weights_of_classes_change_while_it_runs(office: tl.Experiment) -> None:
    simulation = tl.Simulation(office, watch=["web.goodput", "backup.goodput"])
    shares = []
    for web, backup in ((1, 1), (4, 1), (1, 4)):
        simulation.set_class("site", "web", weight=web)
        simulation.set_class("site", "backup", weight=backup)
        simulation.run_for(4.0)
        simulation.read()
        simulation.run_for(8.0)
        first, second = goodputs(simulation)
        assert first + second > 8.5e6
        shares.append(first / (first + second))
    assert shares == pytest.approx([0.5, 0.8, 0.2], abs=0.05)


def test_weights_that_stay_change_nothing(office: tl.Experiment) -> None:
    """As often as an agent sets them."""
    untouched = tl.Simulation(office, watch=["all.goodput"])
    untouched.run_until(20.0)
    touched = tl.Simulation(office, watch=["all.goodput"])
    while touched.now < 20.0:
        touched.set_class("site", "web", weight=1)
        touched.run_until(min(touched.now + 0.1, 20.0))
    assert goodputs(touched)[0] > 0.99 * goodputs(untouched)[0]


def test_a_target_delay_changes_while_it_runs(office: tl.Experiment) -> None:
    delays = []
    for target in (0.1, 0.005):
        simulation = tl.Simulation(office, watch=["site.backup.queue.bytes"])
        simulation.set_class("site", "backup", target=target)
        simulation.run_until(10.0)
        waiting = []
        while simulation.now < 20.0:
            simulation.run_for(0.05)
            waiting.append(goodputs(simulation)[0])
        delays.append(sum(waiting))
    assert delays[1] < 0.6 * delays[0]


def test_classes_that_cannot_be_changed(office: tl.Experiment) -> None:
    simulation = tl.Simulation(office)
    for trunk, name, keywords, text in [
        ("wan", "web", {"weight": 2}, "is no trunk; allowed: site"),
        ("site", "voice", {"weight": 2}, "is no class; allowed: web, backup"),
        ("site", "web", {"weight": 0}, "weight is 0; allowed: whole numbers from 1 to 1000"),
        ("site", "web", {"target": 0.01}, "is tail-drop, which has no target; allowed: codel, fq-codel, pie"),
        ("site", "backup", {"target": 3.0}, "target .* is not below interval"),
        ("site", "backup", {"target": float("nan")}, "target is NaN; allowed"),
    ]:
        with pytest.raises((tl.ExperimentError, ValueError), match=text):
            simulation.set_class(trunk, name, **keywords)  # type: ignore[arg-type]
