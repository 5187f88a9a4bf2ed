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


def test_an_agent_sets_the_classes_of_a_trunk(office: tl.Experiment) -> None:
    from gymnasium.utils.env_checker import check_env

    from trunkline.gym import GatewayEnv

    def share(seen: dict[str, float]) -> float:
        return seen["web.goodput"] / max(sum(seen.values()), 1.0)

    environment = GatewayEnv(
        office,
        "site",
        watch=["web.goodput", "backup.goodput"],
        reward=share,
        weights=["web", "backup"],
        targets={"backup": (0.005, 0.05)},
        step=2.0,
    )
    check_env(environment, skip_render_check=True)
    rewards = []
    for action in ([0.5, 0.0, 0.5], [0.0, 0.5, 0.5]):
        environment.reset(seed=1)
        over, reward = False, 0.0
        while not over:
            seen, reward, terminated, over, info = environment.step(np.array(action, np.float32))
            assert not terminated and seen[0] == np.float32(info["observed"]["web.goodput"])
        rewards.append(reward)
    assert rewards[0] > 0.9 and rewards[1] < 0.1


def test_bad_arguments(file: Path) -> None:
    from trunkline.gym import GatewayEnv, SenderEnv

    with pytest.raises(ValueError, match="step is 0"):
        SenderEnv(str(file), "agent", step=0)
    for wrong, text in [
        ({}, "nothing to set"),
        ({"weights": ["web"], "step": 0}, "step is 0"),
        ({"targets": {"backup": (0.1, 0.0)}}, "targets of backup are 0.1 to 0.0"),
    ]:
        with pytest.raises(ValueError, match=text):
            GatewayEnv(str(file), "site", watch=[], reward=lambda _: 0.0, **wrong)  # type: ignore[arg-type]
    with pytest.raises(tl.ExperimentError, match="nobody"):
        SenderEnv(str(file), "nobody").reset()
    with pytest.raises(RuntimeError, match="reset"):
        SenderEnv(str(file), "agent").step(np.zeros(1, np.float32))
