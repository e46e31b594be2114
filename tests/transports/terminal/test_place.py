"""Where the daemon is looked for, and what is said when it is not there."""

import json
import os

import msgspec
import pytest

from transports.runner import ProcessIdentity
from transports.terminal.exits import Exit, Failure
from transports.terminal.place import Options, Place

ME = ProcessIdentity.of(os.getpid())


def leave(data_dir, text):
    data_dir.mkdir(exist_ok=True)
    (data_dir / "daemon.json").write_text(text)


def test_the_daemon_leaves_its_address_and_its_key(tmp_path):
    leave(tmp_path, json.dumps({"url": "http://127.0.0.1:7340", **msgspec.structs.asdict(ME)}))
    (tmp_path / "admin.token").write_text("tka_1\n")
    place = Place(Options(data_dir=str(tmp_path)), {})
    assert place.admin_url() == "ws://127.0.0.1:7340/admin" and place.token() == "tka_1"


@pytest.mark.parametrize("earlier", [0.0, 60.0])
def test_a_key_is_not_shown_to_whoever_has_the_port_of_one_that_has_ended(tmp_path, earlier):
    # Either nobody has its pid any more, or somebody who started at another time.
    pid = 2**22 + 1 if not earlier else ME.pid
    left = {"url": "http://127.0.0.1:7340", "pid": pid, "started": ME.started - earlier, "boot": ME.boot}
    leave(tmp_path, json.dumps(left))
    with pytest.raises(Failure, match=rf"\(pid {pid}\) has ended") as failed:
        Place(Options(data_dir=str(tmp_path)), {}).admin_url()
    assert failed.value.exit_code is Exit.NOT_RUNNING


def test_options_go_before_the_environment():
    environment = {"TURNKEEP_URL": "http://e:1", "TURNKEEP_TOKEN": "e", "TURNKEEP_DATA_DIR": "/e"}
    place = Place(Options(url="http://o:1", token="o", data_dir="/o"), environment)
    assert (place.admin_url(), place.token(), str(place.data_dir)) == ("ws://o:1/admin", "o", "/o")
    place = Place(Options(), environment)
    assert (place.admin_url(), place.token(), str(place.data_dir)) == ("ws://e:1/admin", "e", "/e")


def test_options_after_the_verb_go_before_those_before_it():
    options = Options(url="inner").over(Options(url="outer", token="outer", as_json=True, timeout=5.0))
    assert (options.url, options.token, options.as_json, options.timeout) == ("inner", "outer", True, 5.0)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://h:1", "ws://h:1/admin"),
        ("https://h/", "wss://h/admin"),
        ("ws://h:1/admin", "ws://h:1/admin"),
        ("h:1", "ws://h:1/admin"),
    ],
)
def test_addresses(given, url):
    assert Place(Options(url=given), {}).admin_url() == url


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"port": 1}'])
def test_without_a_daemon_it_is_said_what_to_type(tmp_path, text):
    if text is not None:
        leave(tmp_path, text)
    with pytest.raises(Failure, match=f"turnkeepd --data-dir {tmp_path}") as failed:
        Place(Options(data_dir=str(tmp_path)), {}).admin_url()
    assert failed.value.exit_code is Exit.NOT_RUNNING


def test_without_a_key_it_is_said_where_one_was_looked_for(tmp_path):
    with pytest.raises(Failure, match=r"admin\.token") as failed:
        Place(Options(data_dir=str(tmp_path)), {}).token()
    assert failed.value.exit_code is Exit.USAGE


def test_the_default_directory_is_the_platforms():
    assert Place(Options(), {}).data_dir.name == "turnkeep"
