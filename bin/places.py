"""Where the static actors are."""

from actors.runtime import Ref, System


class Places:
    """
    The static actors by their names: ``at.store`` is the one at /store.

    Its place stays while it is down or quarantined, and the ref is good again when it comes back.
    """

    def __init__(self, system: System) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Ref:
        ref = self._system.find(f"/{name}")
        assert ref is not None, f"nothing is at /{name}"
        return ref
