"""Events are kept as JSON with their inbox rows and read again."""

import msgspec

from actors.messages.inbound import InboundEvent, Media, MessageType, PromptResponse, ReplyTo, Source


def test_an_event_survives_storage() -> None:
    source = Source(platform="discord", chat_id="C1", chat_type="group", user_id="U1", scope_id="G1")
    event = InboundEvent(
        source=source,
        text="look \N{GRINNING FACE}",
        message_type=MessageType.PHOTO,
        message_id="m1",
        reply_to=ReplyTo(text="what?", is_own=True),
        media_urls=("https://x/1",),
        media=(Media(url="https://x/1", mime="image/png", size=12),),
        context=(InboundEvent(source=source, text="before"),),
        prompt_response=PromptResponse(prompt_id="p", option_id="yes"),
    )
    assert msgspec.json.decode(msgspec.json.encode(event), type=InboundEvent) == event


def test_an_event_is_stored_without_what_it_does_not_say() -> None:
    event = InboundEvent(source=Source(platform="discord"), text="hi")
    assert msgspec.json.decode(msgspec.json.encode(event)) == {
        "source": {"platform": "discord"},
        "text": "hi",
    }
