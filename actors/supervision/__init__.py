"""Who restarts whom: child specs, the pure decision, and the supervisor that performs it."""

from actors.supervision.spec import ChildSpec, Intensity, Restart, Strategy
from actors.supervision.supervisor import Supervisor

__all__ = ["ChildSpec", "Intensity", "Restart", "Strategy", "Supervisor"]
