# %% [markdown]
# # Learn with stable-baselines3
#
# The loop of `agent.py` with a library for it: proximal policy optimisation (PPO) trains a small neural network to set the window of one
# sender, in a minute or two on one CPU. It is trained on lines of 5 to 50 Mbit/s, alone and beside a flow of CUBIC, and judged on four rates
# that it has not seen, where CUBIC and BBR are set in its place.
#
# Needs `pip install stable-baselines3`.

# %%
import os
import time

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import trunkline as tl
from trunkline.gym import Observed, SenderEnv, power

BRIEF = "TRUNKLINE_BRIEF" in os.environ
STEP = 0.1


def network(rate: float, others: int = 0) -> tl.Experiment:
    """One sender over a line of so many Mbit/s, 20 ms long there and back, with a queue of five times its product, and others with CUBIC."""
    packets = max(10, round(5 * rate * 1e6 * 0.02 / 8 / 1500))
    bulk = {"kind": "bulk", "from": "a", "to": "b"}
    return tl.Experiment.from_dict(
        {
            "id": "line",
            "title": "One sender over a line",
            "duration": "10 s" if others == 0 else "60 s",
            "runs": 1,
            "nodes": {"a": "host", "router": "router", "b": "host"},
            "links": {
                "lan": {"ends": ["a", "router"], "rate": "1 Gbit/s"},
                "line": {
                    "ends": ["router", "b"],
                    "rate": f"{rate} Mbit/s",
                    "delay": "10 ms",
                    "queue": {"discipline": "tail-drop", "packets": packets},
                },
            },
            "tcp": {"cubic": {"preset": "linux-6"}, "bbr": {"preset": "linux-6", "growth": "bbr"}},
            "traffic": {
                "agent": {**bulk, "tcp": "cubic"},
                "other": {**bulk, "tcp": "cubic", "flows": max(others, 1), "enabled": others > 0},
            },
        }
    )


# %% [markdown]
# ## What it sees and does
#
# Four numbers without a unit: how much longer than the shortest the round trip is, whether anything was lost, how full the window is, and the
# goodput over the largest so far. The action is the factor for the window.

# %%
class Lines(gymnasium.Env):
    """Each episode is another of the lines, drawn by its seed."""

    def __init__(self, experiments: list[tl.Experiment]) -> None:
        self.lines = [SenderEnv(experiment, "agent", step=STEP) for experiment in experiments]
        self.observation_space = gymnasium.spaces.Box(-5.0, 5.0, (4,), np.float32)
        self.action_space = self.lines[0].action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.line = self.lines[int(self.np_random.integers(len(self.lines)))]
        _, info = self.line.reset(seed=int(self.np_random.integers(1 << 31)))
        self.most = 1.0
        return self.features(info["observed"]), info

    def step(self, action):
        _, reward, terminated, truncated, info = self.line.step(action)
        return self.features(info["observed"]), reward, terminated, truncated, info

    def features(self, seen: Observed) -> np.ndarray:
        self.most = max(self.most, seen.goodput)
        stretch = seen.rtt / seen.min_rtt - 1.0 if seen.rtt > 0.0 else 0.0
        full = seen.in_flight / max(seen.window, 1.0)
        values = [stretch, float(seen.retransmissions > 0), full, seen.goodput / self.most]
        return np.clip(values, -5.0, 5.0).astype(np.float32)


# %%
torch.set_num_threads(1)
began = time.process_time()
RATES = (5, 10, 20, 35, 50)
lines = [network(rate) for rate in RATES] + [network(rate, others=1).set("duration", "20 s") for rate in RATES]
training = DummyVecEnv([lambda: Lines(lines)] * 4)
model = PPO(
    "MlpPolicy", training, n_steps=256, batch_size=256, learning_rate=1e-3, gamma=0.95, ent_coef=0.002, seed=1,
    policy_kwargs={"net_arch": [32, 32]}, device="cpu",
)
model.learn(2_048 if BRIEF else 200_000)
print(f"trained in {time.process_time() - began:.0f} s of CPU")

# %% [markdown]
# ## On lines that it has not seen


# %%
def agent(environment: Lines, seed: int) -> tuple[float, float, float]:
    """Its mean reward, goodput and round-trip time, after the first two seconds."""
    seen, info = environment.reset(seed=seed)
    rewards, goodputs, rtts, over = [], [], [], False
    while not over:
        action, _ = model.predict(seen, deterministic=True)
        seen, reward, terminated, truncated, info = environment.step(action)
        over = terminated or truncated
        if info["time"] > 2.0:
            rewards.append(reward)
            goodputs.append(info["observed"].goodput)
            rtts.append(info["observed"].rtt)
    return float(np.mean(rewards)), float(np.mean(goodputs)), float(np.mean(rtts))


def kernel(experiment: tl.Experiment, algorithm: str) -> tuple[float, float, float]:
    """The same of an algorithm of Linux in its place."""
    names = [f"agent.0.{name}" for name in ("goodput", "srtt", "retransmissions", "cwnd", "in_flight")]
    simulation = tl.Simulation(experiment.set("traffic.agent.tcp", algorithm), seed=1, watch=names)
    rewards, goodputs, rtts, shortest = [], [], [], np.inf
    while simulation.now < simulation.duration:
        simulation.run_for(STEP)
        goodput, rtt, lost, window, in_flight = (value or 0.0 for value in simulation.read())
        shortest = min(shortest, rtt) if rtt > 0 else shortest
        if simulation.now > 2.0:
            rewards.append(power(Observed(goodput, rtt, shortest, lost, window, in_flight)))
            goodputs.append(goodput)
            rtts.append(rtt)
    return float(np.mean(rewards)), float(np.mean(goodputs)), float(np.mean(rtts))


def table(title: str, others: int, rates: tuple[int, ...]) -> list[float]:
    print(title)
    print("                 agent               CUBIC                BBR")
    print("  Mbit/s   Mbit/s    ms  reward   Mbit/s   ms  reward   Mbit/s   ms  reward")
    gains = []
    for rate in rates:
        experiment = network(rate, others)
        found = [agent(Lines([experiment]), seed=99), *(kernel(experiment, name) for name in ("cubic", "bbr"))]
        cells = [f"{goodput / 1e6:8.2f} {rtt * 1e3:5.0f} {reward:6.2f}" for reward, goodput, rtt in found]
        print(f"  {rate:6}" + " ".join(cells))
        gains.append(found[0][0] - found[1][0])
    return gains


gains = table("alone", 0, (7, 15, 30, 60))
gains += table("beside one flow of CUBIC", 1, (7, 15, 30, 60))

# %% [markdown]
# Alone it has all of the line and an almost empty queue, as BBR has; beside CUBIC, which fills the queue whatever anybody does, it takes a
# little more than half. Trained on the lines where it is alone and on no others, it gives way: beside CUBIC it keeps 0.2 Mbit/s of any line.
# What an agent has not met it cannot do, and a figure of goodput on empty lines does not show it.

# %%
assert BRIEF or min(gains) > 0.0, "on lines that it has not seen, the agent is better than CUBIC by this measure"
