# %% [markdown]
# # A sweep on Dask
#
# Four rates, four delays, ten runs of each. A cluster of two processes on this machine stands for one of a hundred machines: only the
# line that makes the client differs.

# %%
import os
import tempfile
from pathlib import Path

from distributed import Client, LocalCluster

import trunkline as tl
from trunkline import cluster

BRIEF = "TRUNKLINE_BRIEF" in os.environ


def experiment() -> tl.Experiment:
    return tl.Experiment.from_dict(
        {
            "id": "sweep",
            "title": "CUBIC over rates and delays",
            "duration": "20 s",
            "warm_up": "5 s",
            "runs": 2 if BRIEF else 10,
            "nodes": {"a": "host", "router": "router", "b": "host"},
            "links": {
                "lan": {"ends": ["a", "router"], "rate": "1 Gbit/s"},
                "line": {
                    "ends": ["router", "b"],
                    "rate": "10 Mbit/s",
                    "loss": 0.0005,
                    "queue": {"discipline": "tail-drop", "packets": 100},
                },
            },
            "traffic": {"bulk": {"kind": "bulk", "from": "a", "to": "b"}},
            "sweep": {
                "rate": {"paths": ["links.line.rate"], "values": [f"{rate} Mbit/s" for rate in (5, 10, 20, 40)]},
                "delay": {"paths": ["links.line.delay"], "values": [f"{delay} ms" for delay in (5, 20, 50, 100)]},
            },
        }
    )


# %%
def main(out: Path) -> None:
    made = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1")
    with made, Client(made) as client:
        results = cluster.run(
            experiment(),
            client.get_executor(),
            out,
            parts=8,
            progress=lambda done, parts: print(f"{done} of {parts} parts"),
        )
    for point in results.points:
        axes, goodput = point["point"], point["metrics"]["bulk.goodput"]
        print(f"{axes['rate']:>10} {axes['delay']:>7} {goodput['mean'] / 1e6:6.2f} ± {(goodput['ci95'] or 0) / 1e6:4.2f} Mbit/s")
    # To the bit what one process gives.
    assert results.points == experiment().run().points


# Workers are processes that import this file.
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as out:
        main(Path(out))
