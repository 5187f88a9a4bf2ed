"""Environments of Gymnasium: an agent is the congestion control of one sender, or sets the classes of a trunk.

Everything else in the network (other flows with the algorithms of Linux, queues, trunks, links that vary) is as the experiment says, so an
agent is compared with them where it was trained.

    env = SenderEnv("dumbbell.toml", traffic="agent")
    env = gymnasium.make("trunkline/Sender-v0", experiment="dumbbell.toml", traffic="agent")
    env = GatewayEnv("office.toml", trunk="site", weights=["web", "backup"], watch=["web.goodput"], reward=lambda seen: seen["web.goodput"])
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ._trunkline import Experiment, Simulation

__all__ = ["GatewayEnv", "Observed", "SenderEnv", "power"]

Observation = NDArray[np.float32]

#: The largest data segment of an Ethernet path, in bytes: windows are counted in these.
SEGMENT = 1448.0
#: For how long a connection may take to open, in seconds.
OPENING = 60.0


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of a step."""

    #: Data that arrived, in bit/s.
    goodput: float
    #: Smoothed round-trip time of the sender, in seconds; 0 before the first sample.
    rtt: float
    #: The smallest of them in the episode, in seconds.
    min_rtt: float
    #: Segments that were sent again.
    retransmissions: float
    #: The window, in bytes.
    window: float
    #: Bytes in flight.
    in_flight: float


def power(seen: Observed) -> float:
    """The logarithm of the goodput in Mbit/s over the round-trip time, relative to the smallest: Kleinrock's power."""
    if seen.rtt <= 0.0:
        return 0.0
    rate = max(seen.goodput / 1e6, 1e-3)
    return float(np.log(rate) - np.log(seen.rtt / seen.min_rtt))


class _Env(gymnasium.Env[Observation, Observation]):
    """What both environments are: a run of an experiment in steps."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self, experiment: Experiment | str | os.PathLike[str], step: float, point: dict[str, str] | None
    ) -> None:
        if step <= 0.0:
            raise ValueError(f"step is {step}; allowed: seconds above 0")
        self._experiment = experiment if isinstance(experiment, Experiment) else Experiment.load(experiment)
        self._experiment.check()
        self._step, self._point, self._end = step, point, self._experiment.duration
        self._watch: list[str] = []
        self._simulation: Simulation | None = None

    @property
    def simulation(self) -> Simulation:
        """The run of this episode: to look at it, or to change its links."""
        if self._simulation is None:
            raise RuntimeError("there is no episode yet; call reset() first")
        return self._simulation

    def _begin(self) -> Simulation:
        """A run with a seed of this episode."""
        number = int(self.np_random.integers(1 << 32))
        return Simulation(self._experiment, number, point=self._point, watch=self._watch)


class SenderEnv(_Env):
    """One sender of an experiment, which an agent gives a window.

    Observation (float32): round-trip time over its minimum, round-trip time in s, goodput in Mbit/s, retransmitted segments, window in
    segments, bytes in flight over the window.
    Action: the logarithm to base 2 of the factor for the window, from -1 to 1.
    """

    def __init__(
        self,
        experiment: Experiment | str | os.PathLike[str],
        traffic: str,
        *,
        user: int = 0,
        step: float = 0.1,
        point: dict[str, str] | None = None,
        reward: Callable[[Observed], float] = power,
        max_window: float = 1e9,
    ) -> None:
        """`traffic`: the source of the experiment that is the agent's, a long transfer over TCP, and `user` which of its flows. `step`: seconds
        between two actions. `point`: of the sweep, the first if none is said. An episode is as long as the experiment."""
        super().__init__(experiment, step, point)
        self._traffic, self._user, self._reward, self._max_window = traffic, user, reward, max_window
        quantities = ("goodput", "srtt", "retransmissions", "cwnd", "in_flight")
        self._watch = [f"{traffic}.{user}.{quantity}" for quantity in quantities]
        self.observation_space = gymnasium.spaces.Box(0.0, np.inf, (6,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new run, in which the agent has taken the sender over as soon as its connection is open."""
        super().reset(seed=seed)
        simulation = self._begin()
        self._window = 10 * SEGMENT
        while not simulation.set_window(self._traffic, self._window, self._user):
            if simulation.now > OPENING:
                raise RuntimeError(f"{self._traffic}.{self._user} has no connection after {OPENING} s")
            simulation.run_for(0.01)
        self._simulation, self._min_rtt = simulation, np.inf
        # A round trip, so that there is something to see.
        while simulation.now < OPENING:
            simulation.run_for(self._step)
            seen = self._look()
            if seen.rtt > 0.0:
                return self._observation(seen), {"time": simulation.now, "observed": seen}
        raise RuntimeError(f"{self._traffic}.{self._user} has no round-trip time after {OPENING} s")

    def step(self, action: Observation) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sets the window and runs on for a step."""
        simulation = self.simulation
        factor = 2.0 ** min(max(float(action[0]), -1.0), 1.0)
        self._window = min(max(self._window * factor, 2 * SEGMENT), self._max_window)
        open_ = simulation.set_window(self._traffic, self._window, self._user)
        simulation.run_for(self._step)
        seen = self._look()
        truncated = simulation.now >= self._end
        info = {"time": simulation.now, "observed": seen}
        return self._observation(seen), self._reward(seen), not open_, truncated, info

    def _look(self) -> Observed:
        goodput, rtt, retransmissions, window, in_flight = (value or 0.0 for value in self.simulation.read())
        if rtt > 0.0:
            self._min_rtt = min(self._min_rtt, rtt)
        return Observed(goodput, rtt, self._min_rtt, retransmissions, window, in_flight)

    def _observation(self, seen: Observed) -> Observation:
        stretch = seen.rtt / seen.min_rtt if seen.rtt > 0.0 else 1.0
        window = max(seen.window, 1.0)
        return np.array(
            [stretch, seen.rtt, seen.goodput / 1e6, seen.retransmissions, window / SEGMENT, seen.in_flight / window],
            np.float32,
        )


class GatewayEnv(_Env):
    """The classes of one way of a trunk, whose weights and target delays an agent sets.

    Observation (float32): the values of `watch`, in base units; 0 for one that is not there.
    Action: for each class in `weights` its weight, from 0 (a weight of 1) to 1 (1000), and for each in `targets` its target delay, from 0
    (the smallest) to 1 (the largest); both on a logarithmic scale.
    """

    def __init__(
        self,
        experiment: Experiment | str | os.PathLike[str],
        trunk: str,
        *,
        watch: Sequence[str],
        reward: Callable[[dict[str, float]], float],
        weights: Sequence[str] = (),
        targets: Mapping[str, tuple[float, float]] | None = None,
        step: float = 0.5,
        point: dict[str, str] | None = None,
    ) -> None:
        """`trunk`: its name, or with `.back` its other way. `watch`: names of series, as in docs/metrics.md. `reward`: of their values. `targets`:
        for each class whose queue aims at a delay (`codel`, `fq-codel`, `pie`) the smallest and the largest, in seconds. `step`: seconds
        between two actions. `point`: of the sweep, the first if none is said. An episode is as long as the experiment."""
        super().__init__(experiment, step, point)
        self._targets = dict(targets or {})
        for name, (least, most) in self._targets.items():
            if not 0.0 < least <= most:
                raise ValueError(f"targets of {name} are {least} to {most}; allowed: seconds above 0, the smaller first")
        self._weights = list(weights)
        if not self._weights and not self._targets:
            raise ValueError("there is nothing to set; allowed: classes in weights, in targets, or in both")
        self._trunk, self._watch, self._reward = trunk, list(watch), reward
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (len(self._watch),), np.float32)
        self.action_space = gymnasium.spaces.Box(0.0, 1.0, (len(self._weights) + len(self._targets),), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new run, a step after its start, with the classes of the experiment."""
        super().reset(seed=seed)
        self._simulation = self._begin()
        self._simulation.run_for(self._step)
        seen = self._look()
        return self._observation(seen), {"time": self._simulation.now, "observed": seen}

    def step(self, action: Observation) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sets the classes and runs on for a step."""
        simulation, parts = self.simulation, [min(max(float(part), 0.0), 1.0) for part in action]
        for name, part in zip(self._weights, parts, strict=False):
            simulation.set_class(self._trunk, name, weight=round(1000.0**part))
        for (name, (least, most)), part in zip(self._targets.items(), parts[len(self._weights) :], strict=True):
            simulation.set_class(self._trunk, name, target=least * (most / least) ** part)
        simulation.run_for(self._step)
        seen = self._look()
        truncated = simulation.now >= self._end
        return self._observation(seen), self._reward(seen), False, truncated, {"time": simulation.now, "observed": seen}

    def _look(self) -> dict[str, float]:
        values = (value or 0.0 for value in self.simulation.read())
        return dict(zip(self._watch, values, strict=True))

    def _observation(self, seen: dict[str, float]) -> Observation:
        return np.array(list(seen.values()), np.float32)


gymnasium.register(id="trunkline/Sender-v0", entry_point="trunkline.gym:SenderEnv")
gymnasium.register(id="trunkline/Gateway-v0", entry_point="trunkline.gym:GatewayEnv")
