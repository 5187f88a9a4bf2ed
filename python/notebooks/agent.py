# %% [markdown]
# # Train an agent
#
# A sender learns how to set its window: a linear rule of what it sees, found by the cross-entropy method. It is trained on links of four
# rates and judged on four others that it has never seen, beside CUBIC and BBR in the same networks, with the same measure.
#
# What is learned here is a small rule on a simple path, in less than a minute. It shows the loop; it is no congestion control for the
# Internet.

# %%
import os

import numpy as np

import trunkline as tl
from trunkline.gym import SEGMENT, Observed, SenderEnv, power

BRIEF = "TRUNKLINE_BRIEF" in os.environ
STEP = 0.1


def network(rate: float) -> tl.Experiment:
    """One sender over a line of so many Mbit/s, 20 ms long there and back, with a queue that holds five times its product."""
    packets = max(10, round(5 * rate * 1e6 * 0.02 / 8 / 1500))
    return tl.Experiment.from_dict(
        {
            "id": "line",
            "title": "One sender over a line",
            "duration": "10 s",
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
            "traffic": {"agent": {"kind": "bulk", "from": "a", "to": "b", "tcp": "cubic"}},
        }
    )


# %% [markdown]
# ## The rule
#
# The factor for the window is 2 to the power of a weighted sum of three things: how much longer than the shortest the round trip is, whether
# anything was lost, and a constant.

# %%
def features(seen: np.ndarray) -> np.ndarray:
    stretch, _, _, lost, _, _ = seen
    return np.array([1.0, min(stretch - 1.0, 3.0), float(lost > 0)])


def episode(environment: SenderEnv, weights: np.ndarray, seed: int) -> float:
    """The mean reward of an episode by a rule."""
    seen, _ = environment.reset(seed=seed)
    rewards, over = [], False
    while not over:
        action = np.tanh([weights @ features(seen)]).astype(np.float32)
        seen, reward, terminated, over, _ = environment.step(action)
        rewards.append(reward)
        if terminated:
            break
    return float(np.mean(rewards))


def train(rates: list[float], generations: int, candidates: int = 24, best: int = 6) -> np.ndarray:
    """The cross-entropy method: draw rules, keep the best, draw around them."""
    environments = [SenderEnv(network(rate), "agent", step=STEP) for rate in rates]
    random = np.random.default_rng(1)
    mean, spread = np.zeros(3), np.full(3, 1.0)
    for generation in range(generations):
        rules = mean + spread * random.standard_normal((candidates, 3))
        # Of a rate alone a rule is better or worse by that rate: each is judged by the mean of all.
        scores = [np.mean([episode(environment, rule, generation) for environment in environments]) for rule in rules]
        chosen = rules[np.argsort(scores)[-best:]]
        mean, spread = chosen.mean(axis=0), chosen.std(axis=0) + 0.02
        print(f"generation {generation + 1:2}: mean reward {np.mean(scores):6.3f}, best {np.max(scores):6.3f}")
    return mean


weights = train([5, 10, 20, 40], generations=3 if BRIEF else 15)
print("weights: constant, stretch, loss:", weights.round(2))

# %% [markdown]
# ## Beside CUBIC and BBR
#
# The same networks, the same steps, the same measure: only who sets the window differs.

# %%
def kernel(experiment: tl.Experiment, algorithm: str) -> float:
    """The mean reward that an algorithm of Linux would have got."""
    names = [f"agent.0.{name}" for name in ("goodput", "srtt", "retransmissions", "cwnd", "in_flight")]
    simulation = tl.Simulation(experiment.set("traffic.agent.tcp", algorithm), seed=1, watch=names)
    rewards, shortest = [], np.inf
    while simulation.now < simulation.duration:
        simulation.run_for(STEP)
        goodput, rtt, lost, window, in_flight = (value or 0.0 for value in simulation.read())
        if rtt > 0:
            shortest = min(shortest, rtt)
            rewards.append(power(Observed(goodput, rtt, shortest, lost, window, in_flight)))
    return float(np.mean(rewards))


print("  Mbit/s   agent   CUBIC     BBR    nothing in the queue, all of the rate")
gains = []
for rate in (7, 15, 30, 60):
    experiment = network(rate)
    agent = episode(SenderEnv(experiment, "agent", step=STEP), weights, seed=99)
    cubic, bbr = kernel(experiment, "cubic"), kernel(experiment, "bbr")
    gains.append(agent - cubic)
    print(f"  {rate:6} {agent:7.2f} {cubic:7.2f} {bbr:7.2f} {np.log(rate * SEGMENT / 1514):7.2f}")

# %%
assert BRIEF or min(gains) > 0.3, "on links that it has not seen, the agent is better than CUBIC by this measure"
