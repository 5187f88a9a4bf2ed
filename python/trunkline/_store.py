"""Results in an object store, such as S3, by the library obstore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._trunkline import RunError

#: The last object of a tree: without it some may be missing.
_COMPLETE = "complete"


def is_store(place: str) -> bool:
    """Whether a place is an address of a store, and no directory."""
    return "://" in place


class Store:
    """Directories below an address such as ``s3://bucket/prefix``. Credentials and the endpoint are what the environment says, as with other
    programs for S3 (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and so on)."""

    def __init__(self, address: str) -> None:
        try:
            import obstore.store
        except ImportError:
            raise RunError(f"{address}: needs the package obstore; pip install 'trunkline[s3]'") from None
        self._address = address.rstrip("/")
        options: dict[str, Any] = {}
        if address.startswith("s3:"):
            options["client_options"] = {"allow_http": True}
        with self._named():
            self._store = obstore.store.from_url(self._address, **options)

    def put(self, directory: Path, name: str, complete: str) -> None:
        """Copies a directory to this name, and marks it as complete with a text."""
        import obstore

        with self._named(name):
            for path in sorted(directory.rglob("*")):
                if path.is_file():
                    obstore.put(self._store, f"{name}/{path.relative_to(directory)}", path)
            obstore.put(self._store, f"{name}/{_COMPLETE}", complete.encode())

    def complete(self, name: str) -> str | None:
        """The text that a directory was marked as complete with; None if it is not."""
        import obstore

        with self._named(name):
            try:
                return bytes(obstore.get(self._store, f"{name}/{_COMPLETE}").bytes()).decode()
            except FileNotFoundError:
                return None

    def get(self, name: str, directory: Path) -> None:
        """Copies what is below a name into a directory."""
        import obstore

        with self._named(name):
            for page in obstore.list(self._store, prefix=f"{name}/"):
                for item in page:
                    relative = item["path"].removeprefix(f"{name}/")
                    if relative != _COMPLETE:
                        path = directory / relative
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(obstore.get(self._store, item["path"]).bytes())

    def remove(self, name: str) -> None:
        """Removes what is below a name."""
        import obstore

        with self._named(name):
            paths = [item["path"] for page in obstore.list(self._store, prefix=f"{name}/") for item in page]
            obstore.delete(self._store, paths)

    @contextmanager
    def _named(self, name: str = "") -> Iterator[None]:
        """Says of an error where it was."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            where = f"{self._address}/{name}" if name else self._address
            # The library's text goes on with the source of the error, over several lines.
            raise RunError(f"{where}: {str(error).splitlines()[0] or type(error).__name__}") from error
