"""A laboratory of congestion control: networks, senders, queues and TCP trunks in virtual time.

    import trunkline as tl
    exp = tl.Experiment.load("bench-demo").quick()
    results = exp.run(progress=True)
    results.claims
    polars.DataFrame(results.metrics)   # or pandas, DuckDB, pyarrow: whatever takes Arrow

Units are base units everywhere: seconds, bytes, bit/s, or 1 for shares and counts. Runs are in this process, and the interpreter is free
meanwhile. The same experiment and seed give the same results, to the bit, as ``trunkline lab run`` does.
"""

from . import cluster
from ._trunkline import (
    VERSION,
    Ack,
    Answer,
    Claim,
    Experiment,
    ExperimentError,
    Packet,
    Results,
    RunError,
    Simulation,
    Table,
    Window,
    __version__,
    agree,
)
from .custom import CongestionControl, QueueDiscipline

__all__ = [
    "VERSION",
    "Ack",
    "Answer",
    "Claim",
    "CongestionControl",
    "Experiment",
    "ExperimentError",
    "Packet",
    "QueueDiscipline",
    "Results",
    "RunError",
    "Simulation",
    "Table",
    "Window",
    "__version__",
    "agree",
    "cluster",
]
