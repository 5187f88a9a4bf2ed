"""Shows how far a run is: by tqdm where that is installed, else as a line of a terminal."""

import sys


class Bar:
    """Called with runs that are done, all runs, and seconds that are left."""

    def __init__(self, title: str) -> None:
        self._title = title
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._tqdm = None
        else:
            self._tqdm = tqdm(desc=title, unit="run")

    def __call__(self, done: int, total: int, left: float | None) -> None:
        if self._tqdm is not None:
            self._tqdm.total = total
            self._tqdm.update(done - self._tqdm.n)
            if done == total:
                self._tqdm.close()
        elif sys.stderr.isatty():
            rest = "" if left is None or done == total else f", {left:.0f} s left"
            end = "\n" if done == total else ""
            print(f"\r\033[K{self._title}: {done} of {total} runs{rest}", end=end, file=sys.stderr, flush=True)
