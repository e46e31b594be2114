"""Events are the same wherever the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.backends.sse import SseParser

LIMIT = 1 << 16


def parse(*pieces: bytes, limit: int = LIMIT) -> list[bytes]:
    parser = SseParser(limit)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.end()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b": comment\n\nevent: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"datax: a\n\n", []),
        (b"\n\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"data: a\n\ndata: cut o", [b"a"]),
        (b"", []),
    ],
)
def test_a_stream_means_its_events(stream, events):
    assert parse(stream) == events


LINES = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b": c",
        b"event: e",
        b"",
        b"",
        b"\xef\xbb\xbfdata: z",
        "data: ü€".encode(),
        b"x",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]))).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(STREAMS, st.data())
def test_any_cut_gives_the_same_events(stream, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*pieces) == parse(stream)
    assert parse(*(bytes([byte]) for byte in stream)) == parse(stream)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_are_survived(stream, cut):
    assert parse(stream[:cut], stream[cut:]) == parse(stream)


def test_a_line_end_cut_in_two_is_one_line_end():
    assert parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb"]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * 200],
        [b"x" * 60, b"x" * 60],
        [b": " + b"x" * 200 + b"\n"],
        [b"data: " + b"x" * 60 + b"\n", b"data: " + b"x" * 60 + b"\n"],
        [b"data:\n"] * 200,
    ],
)
def test_what_is_too_long_ends_the_reading(pieces):
    parser = SseParser(100)
    assert parser.feed(b"data: before\n\n" + pieces[0]) == [b"before"]
    for piece in pieces[1:]:
        parser.feed(piece)
    assert parser.overflowed
    assert parser.feed(b"\n\ndata: after\n\n") == []
    assert parser.end() == []


@given(st.lists(st.sampled_from([b"data: a", b"data: aaaa", b"data", b"", b": c", b"\n"])), st.data())
def test_any_cut_is_too_long_in_the_same_place(lines, data):
    stream = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*pieces, limit=16) == parse(stream, limit=16)


def test_many_events_of_allowed_length_are_no_long_event():
    assert len(parse(b"data: 1234567890\n\n" * 100, limit=100)) == 100


def test_time_is_linear_in_the_bytes():
    size = 300_000
    parser = SseParser(size + 10)
    for _ in range(size):
        parser.feed(b"x")
    assert parser.feed(b"\n\n") == []
