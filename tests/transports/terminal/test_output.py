"""Tables, and texts that would steer a terminal."""

import pytest

from transports.terminal.output import cell, moment, printable, show_facts, show_table, span, styled


def test_a_table_has_columns_and_numbers_stand_right(capsys):
    show_table(("NAME", "N"), [("a", 1), ("long name", 100)])
    assert capsys.readouterr().out == "NAME         N\na            1\nlong name  100\n"


def test_an_empty_table_has_its_head(capsys):
    show_table(("NAME", "N"), [])
    assert capsys.readouterr().out == "NAME  N\n"


def test_on_a_terminal_that_is_too_narrow_each_row_is_told_in_words(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [("/a/long/path", "running", 0, None, 12), ("/b", "suspended", 3, "ValueError", 7)]
    heads = ("PATH", "STATE", "DEPTH", "ERROR", "HANDLED")
    monkeypatch.setenv("COLUMNS", "51")
    show_table(heads, rows)
    table = capsys.readouterr().out
    assert table.startswith("PATH  ") and len(table.splitlines()) == 3
    assert max(len(line) for line in table.splitlines()) == 51
    monkeypatch.setenv("COLUMNS", "50")
    show_table(heads, rows)
    assert capsys.readouterr().out == (
        "/a/long/path\n  state running  handled 12\n"
        "/b\n  state suspended  depth 3  error ValueError\n  handled 7\n"
    )


def test_what_is_no_terminal_gets_a_table_however_wide(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "5")
    show_table(("NAME", "N"), [("a", 1)])
    assert capsys.readouterr().out == "NAME  N\na     1\n"


def test_facts(capsys):
    show_facts({"a": 1, "long": None})
    assert capsys.readouterr().out == "a     1\nlong  -\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), ("", "-"), (True, "yes"), (False, "no"), (0, "0"), (1.5, "1.5"), (2.0, "2"), ([], "-"),
        (["a", "b"], "a, b"), ("two\nlines", "two lines"), ("\x1b[2Jx", "\ufffd[2Jx"),
    ],
)  # fmt: skip
def test_cells_are_one_line(value, text):
    assert cell(value) == text


def test_foreign_text_steers_nothing():
    assert (
        printable("a\x1b]0;title\x07b\x9b2J\rc\n\td\x00 é 👩‍👩‍👧")
        == "a\ufffd]0;title\ufffdb\ufffd2Jc\n\td\ufffd é 👩‍👩‍👧"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0s"), (9.94, "9.9s"), (59, "59s"), (150, "2m30s"), (7200, "2h00m"), (180_000, "2d02h")],
)
def test_spans(seconds, text):
    assert span(seconds) == text


def test_moments():
    assert moment(None) == "-" and len(moment(0.0)) == len("1970-01-01 00:00:00")


@pytest.mark.parametrize(
    ("tty", "no_color", "plain"), [(True, "", False), (True, "1", True), (False, "", True)]
)
def test_style_only_where_it_is_wanted(monkeypatch, tty, no_color, plain):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: tty, raising=False)
    assert (styled("x", "\x1b[1m") == "x") is plain
