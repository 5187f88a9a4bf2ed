# %% [markdown]
# # The papers
#
# Every table and figure of the papers is an experiment that comes with the package. This runs them in their short form and lists what
# the papers claim beside what came out. Without `quick()` it takes minutes, and is what `trunkline lab papers` does.

# %%
import os
from collections import Counter

import trunkline as tl

BRIEF = "TRUNKLINE_BRIEF" in os.environ
PAPERS = ["kung1998", "lee2002", "bosau2004", "honda2005", "damjanovic2007"]

ids = [name for name in tl.Experiment.included() if name.split("-")[0] in PAPERS]
print(len(ids), "experiments of", len(PAPERS), "papers")

# %%
verdicts: dict[str, Counter[str]] = {paper: Counter() for paper in PAPERS}
for name in ids[:3] if BRIEF else ids:
    results = tl.Experiment.load(name).quick().run()
    for claim in results.claims:
        verdicts[name.split("-")[0]][claim.verdict] += 1
        print(f"{claim.verdict:9} {name}: {claim.text}")

# %% [markdown]
# A short run decides less than a full one. `docs/verdicts.md` has those of full runs, on two engines.

# %%
for paper, counted in verdicts.items():
    print(paper, dict(counted))
assert sum(sum(counted.values()) for counted in verdicts.values()) > 0

# %% [markdown]
# A report is a page; in a notebook the results show it themselves.

# %%
results
