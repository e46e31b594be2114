"""The configuration: sources and their order, and errors that name the key and what to write instead."""

import os
from pathlib import Path

import pytest

from actors.exceptions import ConfigError
from bin.config import describe, load


def write(tmp_path, text):
    path = tmp_path / "turnkeep.toml"
    path.write_text(text)
    return path


def test_without_anything_there_are_defaults(tmp_path):
    loaded = load(environment={"TURNKEEP_DATA_DIR": str(tmp_path)})
    assert loaded.config.server.port == 7340
    assert loaded.config.lane == ()
    assert [console.platform for console in loaded.config.console] == ["console"]


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path):
    path = write(tmp_path, 'data_dir = "/from/file"\n[server]\nport = 1\nhost = "0.0.0.0"\n')
    loaded = load(path, environment={"TURNKEEP_DATA_DIR": "/from/env"}, arguments={"server.port": 3})
    assert (loaded.config.data_dir, loaded.config.server.port) == ("/from/env", 3)
    rows = {key: (value, source) for key, value, source in describe(loaded)}
    assert rows["server.port"] == ("3", "command line")
    assert rows["server.host"] == ("'0.0.0.0'", f"file {path}")
    assert rows["data_dir"] == ("'/from/env'", "environment TURNKEEP_DATA_DIR")
    assert rows["session.idle_s"][1] == "default"


def test_values_are_shown_as_one_would_write_them(tmp_path):
    path = write(tmp_path, '[[lane]]\nname = "dry"\nkind = "echo"\n')
    rows = {key: value for key, value, _ in describe(load(path, environment={}))}
    assert rows["lane.0.kind"] == "'echo'"
    assert rows["lane.0.capabilities"] == "['tools']"


def test_the_environment_names_a_configuration_file(tmp_path):
    path = write(tmp_path, "[server]\nport = 9\n")
    assert load(environment={"TURNKEEP_CONFIG": str(path)}).config.server.port == 9


def test_the_environment_makes_a_lane_only_if_the_file_has_none(tmp_path):
    environment = {
        "TURNKEEP_BASE_URL": "http://127.0.0.1:1/v1",
        "TURNKEEP_MODEL": "m",
        "TURNKEEP_API_KEY": "canary-key",
    }
    loaded = load(environment=environment)
    (lane,) = loaded.config.lane
    assert (lane.name, lane.model, lane.api_key.value) == ("default", "m", "canary-key")
    assert not any("canary" in value for _, value, _ in describe(loaded))
    path = write(tmp_path, '[[lane]]\nname = "mine"\nbase_url = "http://x/v1"\nmodel = "y"\n')
    assert [lane.name for lane in load(path, environment=environment).config.lane] == ["mine"]


AMOUNTS = [
    key
    for key, value, _ in describe(load(environment={"TURNKEEP_DATA_DIR": "/d"}))
    if value.replace(".", "").isdigit()
]


def test_there_are_amounts_in_every_section_that_has_any():
    assert {key.split(".")[0] for key in AMOUNTS} == {
        "server", "session", "turn", "relay", "store", "retention", "events", "admin", "admin_socket",
        "supervision", "shutdown",
    }  # fmt: skip


@pytest.mark.parametrize("key", AMOUNTS)
@pytest.mark.parametrize("amount", [-1, float("inf"), float("nan")])
def test_an_amount_out_of_all_bounds_is_refused_by_name(key, amount):
    with pytest.raises(ConfigError, match=f"^setting {key}: expected"):
        load(environment={}, arguments={key: amount})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nprot = 1\n", r"unknown setting server\.prot; did you mean server\.port\?"),
        ("[sever]\nport = 1\n", r"unknown setting sever; did you mean server\?"),
        ('[server]\nport = "x"\n', r"setting server\.port: expected `int`, got `str`"),
        (
            '[[lane]]\nname = "a"\nbase_ulr = "x"\n',
            r"unknown setting lane\.base_ulr; did you mean lane\.base_url\?",
        ),
        ('[session]\non_restart = "explode"\n', r"setting session\.on_restart: .*write report or retry"),
        ("[shutdown]\ndrain_share = 2.0\n", r"setting shutdown\.drain_share: expected `float` <= 1"),
        ("[shutdown]\nbudget_s = -1.0\n", r"setting shutdown\.budget_s: expected `float` >= 1"),
        ('[[console]]\nplatform = "a"\n' * 2, "'a' is there twice"),
        ("not toml at all [", "is not valid TOML"),
        (
            '[[lane]]\nname = "a"\nbase_url = "http://x/v1"\nmodel = "m"\n' * 2,
            "'a' is used twice; give each lane a name of its own",
        ),
        ('[[lane]]\nname = "a/b"\nbase_url = "http://x/v1"\nmodel = "m"\n', "'a/b' is no name"),
        ('[[lane]]\nname = "a"\n', "model of lane a is missing"),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_write(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        load(write(tmp_path, text), environment={})


def test_a_missing_file_and_half_a_lane_are_said(tmp_path):
    with pytest.raises(ConfigError, match="there is no configuration file"):
        load(tmp_path / "none.toml", environment={})
    with pytest.raises(ConfigError, match="TURNKEEP_MODEL is not"):
        load(environment={"TURNKEEP_BASE_URL": "http://x/v1"})
    with pytest.raises(ConfigError, match="TURNKEEP_BASE_URL is not"):
        load(environment={"TURNKEEP_MODEL": "m"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = " + "[" * 5000, "nested too deeply"),
        ("#" * (4 << 20) + "\n", "4194305 bytes"),
        ("server = 3\n", r"setting server: expected a table \[server\], got 3"),
    ],
    ids=["deep", "large", "no table"],
)
def test_a_file_that_is_nothing_like_a_configuration_is_said(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        load(write(tmp_path, text), environment={}, arguments={"server.port": 0})


def test_only_a_regular_file_is_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigError, match=f"{path} is no regular file"):
            load(path, environment={})


def test_an_api_key_in_the_file_is_a_secret(tmp_path):
    text = '[[lane]]\nname = "a"\nbase_url = "http://x/v1"\nmodel = "m"\napi_key = "canary"\n'
    loaded = load(write(tmp_path, text), environment={})
    assert loaded.config.lane[0].api_key.value == "canary"
    assert "canary" not in repr(loaded)


def test_the_data_directory_is_absolute_whatever_was_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    assert load(environment={}, arguments={"data_dir": "here"}).config.data_dir == str(tmp_path / "here")
    assert load(environment={}, arguments={"data_dir": "~/x"}).config.data_dir == "/home/ann/x"
