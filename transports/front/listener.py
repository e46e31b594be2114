"""The listening socket: bound anew for each incarnation of the server, always to the port that was given out first."""

import errno
import socket

from actors.exceptions import ConfigError

BACKLOG = 2048


class Listener:
    """One address. ``url`` is known once it has been opened."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.url: str | None = None

    def open(self) -> socket.socket:
        """Return a listening socket. Raises ConfigError that names the address and what to do."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((self.host, self.port))
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            raise ConfigError(self._explain(error)) from None
        except OverflowError:
            listening.close()
            raise ConfigError(f"setting server.port: {self.port} is no port; use 0 to 65535") from None
        listening.setblocking(False)
        # A port that was given out by the system is kept: clients know it by now.
        self.port = listening.getsockname()[1]
        shown = f"[{self.host}]" if family is socket.AF_INET6 else self.host
        self.url = f"http://{shown}:{self.port}"
        return listening

    def _explain(self, error: OSError) -> str:
        where = f"{self.host} port {self.port}"
        if error.errno == errno.EADDRINUSE:
            return (
                f"{where} is in use by another program: stop it, or choose another --port (0: any free one)"
            )
        if error.errno == errno.EACCES:
            return f"{where} may not be used without privileges: choose a --port above 1023"
        if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            return f"{self.host} is no address of this machine: choose another --host"
        return f"{where} cannot be listened on: {error.strerror}"
