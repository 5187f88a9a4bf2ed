from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trunkline as tl

gymnasium = pytest.importorskip("gymnasium")


def test_gymnasium_finds_nothing_to_complain_of(file: Path) -> None:
    from gymnasium.utils.env_checker import check_env

    import trunkline.gym

    assert trunkline.gym.SenderEnv.metadata["render_modes"] == []
    environment = gymnasium.make("trunkline/Sender-v0", experiment=str(file), traffic="agent", step=0.1)
    check_env(environment.unwrapped, skip_render_check=True)


def test_an_episode_is_a_function_of_its_seed_and_actions(dumbbell: tl.Experiment) -> None:
    from trunkline.gym import SenderEnv

    def episode(seed: int) -> tuple[list[float], str]:
        environment, rewards, over = SenderEnv(dumbbell, "agent", step=0.1), [], False
        environment.reset(seed=seed)
        actions = np.random.default_rng(5)
        while not over:
            action = actions.uniform(-1.0, 1.0, 1).astype(np.float32)
            _, reward, terminated, over, _ = environment.step(action)
            assert not terminated
            rewards.append(reward)
        return rewards, environment.simulation.digest

    assert episode(3) == episode(3)
    assert episode(3)[1] != episode(4)[1]


def test_a_rule_that_watches_the_delay_has_less_of_it(dumbbell: tl.Experiment) -> None:
    from trunkline.gym import Observed, SenderEnv

    def delay(rule) -> tuple[float, float]:  # type: ignore[no-untyped-def]
        environment = SenderEnv(dumbbell.set("traffic.other.enabled", False), "agent", step=0.05)
        seen, _ = environment.reset(seed=1)
        rtts, rates, over = [], [], False
        while not over:
            seen, _, _, over, info = environment.step(np.array([rule(seen)], np.float32))
            observed: Observed = info["observed"]
            rtts.append(observed.rtt)
            rates.append(observed.goodput)
        return float(np.median(rtts)), float(np.mean(rates[20:]))

    careful, rate = delay(lambda seen: 0.3 if seen[0] < 1.3 else -0.3)
    greedy, most = delay(lambda _: 0.3)
    assert careful < 0.6 * greedy
    assert rate > 8e6 and rate > most


def test_bad_arguments(file: Path) -> None:
    from trunkline.gym import SenderEnv

    with pytest.raises(ValueError, match="step is 0"):
        SenderEnv(str(file), "agent", step=0)
    with pytest.raises(tl.ExperimentError, match="nobody"):
        SenderEnv(str(file), "nobody").reset()
    with pytest.raises(RuntimeError, match="reset"):
        SenderEnv(str(file), "agent").step(np.zeros(1, np.float32))
