# %% [markdown]
# # Your own network
#
# Two offices share a line with a long queue. Somebody uploads a file while somebody else waits for answers of a server.
# How long do the answers take, and what changes if the router has another discipline of the queue, or if a trunk keeps the queue out of
# the line?
#
# Run it cell by cell (`jupytext --to notebook network.py` makes a notebook of it), or as it is: `python network.py`.

# %%
import trunkline as tl
from trunkline import plot

experiment = tl.Experiment.from_dict(
    {
        "id": "two-offices",
        "title": "An upload beside requests",
        "duration": "40 s",
        "warm_up": "5 s",
        "runs": 3,
        "nodes": {"pc": "host", "gw-a": "gateway", "gw-b": "gateway", "server": "host"},
        "links": {
            "lan-a": {"ends": ["pc", "gw-a"], "rate": "1 Gbit/s"},
            "line": {
                "ends": ["gw-a", "gw-b"],
                "rate": "10 Mbit/s",
                "delay": "20 ms",
                "queue": {"discipline": "tail-drop", "packets": 250},
            },
            "lan-b": {"ends": ["gw-b", "server"], "rate": "1 Gbit/s"},
        },
        "traffic": {
            "upload": {"kind": "bulk", "from": "pc", "to": "server"},
            "requests": {
                "kind": "web",
                "from": "server",
                "to": "pc",
                "flows": 5,
                "response": {"shape": "exponential", "mean": "20 KB"},
                "think": {"shape": "exponential", "mean": "1 s"},
            },
        },
        "trunks": {"site": {"gateways": ["gw-a", "gw-b"], "enabled": False}},
        "series": {"every": "100 ms", "of": ["line.queue.packets", "upload.0.cwnd"]},
        "sweep": {
            "with": {
                "variants": {
                    "plain": {},
                    "codel": {"links.line.queue": {"discipline": "codel", "packets": 250}},
                    "trunk": {"trunks.site.enabled": True},
                }
            }
        },
    }
)
experiment.points()

# %% [markdown]
# All runs are in this process. What comes back is a table that Polars, pandas, DuckDB or pyarrow take as it is.

# %%
results = experiment.run(progress=True)
results

# %%
for point in results.points:
    metrics = point["metrics"]
    p50, p99 = (metrics[f"requests.delay.{rank}"]["median"] * 1000 for rank in ("p50", "p99"))
    print(f"{point['point']['with']:6} goodput {metrics['upload.goodput']['mean'] / 1e6:5.2f} Mbit/s, requests {p50:6.0f} ms, p99 {p99:6.0f} ms")

# %% [markdown]
# The upload fills the queue; what waits in it is what requests wait for.

# %%
plot.metric(results, "requests.delay.p99")

# %%
plot.series(results, "line.queue.packets", point={"with": "plain"})

# %%
plot.series(results, "line.queue.packets", point={"with": "trunk"})

# %%
plain, codel, trunk = (point["metrics"]["requests.delay.p99"]["median"] for point in results.points)
assert trunk < plain and codel < plain
