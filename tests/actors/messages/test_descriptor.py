"""Descriptors are usable whoever made them."""

import pytest

from actors.messages.descriptor import LEGACY_OPS, Descriptor, usable_length


@pytest.mark.parametrize("garbage", [0, -1, None, "2000", "", [], {}, True, 0.5, float("nan"), float("inf")])
def test_garbage_is_no_length(garbage: object) -> None:
    assert usable_length(garbage) == 4096


@pytest.mark.parametrize(("told", "used"), [(1, 1), (2000, 2000), (2000.0, 2000), (10**30, 100_000)])
def test_a_positive_number_is_a_length_up_to_what_a_line_holds(told: object, used: int) -> None:
    assert usable_length(told) == used


def test_a_descriptor_never_carries_a_useless_length() -> None:
    assert Descriptor(platform="discord", label="Discord", max_message_length=0).max_message_length == 4096


@pytest.mark.parametrize("op", LEGACY_OPS)
def test_without_a_list_of_ops_the_legacy_ones_are_supported(op: str) -> None:
    descriptor = Descriptor(platform="discord", label="Discord", supported_ops=())
    assert descriptor.supports(op)
    assert not descriptor.supports("send_media")


def test_a_list_of_ops_is_all_there_is() -> None:
    descriptor = Descriptor(platform="discord", label="Discord", supported_ops=("send", "react"))
    assert descriptor.supports("react")
    assert not descriptor.supports("edit")
