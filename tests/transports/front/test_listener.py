"""The listening socket: the same port over restarts, and errors that say what to do."""

import socket

import pytest

from actors.exceptions import ConfigError
from transports.front.listener import Listener


def test_a_port_that_the_system_chose_is_kept() -> None:
    listener = Listener("127.0.0.1", 0)
    first = listener.open()
    port = first.getsockname()[1]
    assert (listener.port, listener.url) == (port, f"http://127.0.0.1:{port}")
    first.close()
    with listener.open() as second:
        assert second.getsockname()[1] == port


def test_it_is_opened_again_while_connections_of_its_predecessor_linger() -> None:
    listener = Listener("127.0.0.1", 0)
    first = listener.open()
    with socket.create_connection(("127.0.0.1", listener.port)):
        first.setblocking(True)
        served, _ = first.accept()
        first.close()
        with listener.open():
            served.close()


def test_an_address_in_use_is_named_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1 port {port} is in use .* --port"):
            Listener("127.0.0.1", port).open()


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_a_host_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"{host} is no address of this machine: .* --host"):
        Listener(host, 0).open()


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_number_that_is_no_port_is_named(port: int) -> None:
    with pytest.raises(ConfigError, match=rf"server\.port: {port} is no port"):
        Listener("127.0.0.1", port).open()


def test_an_ipv6_address_is_shown_in_brackets() -> None:
    listener = Listener("::1", 0)
    try:
        listening = listener.open()
    except ConfigError:
        pytest.skip("this machine has no IPv6")
    with listening:
        assert listener.url == f"http://[::1]:{listener.port}"
