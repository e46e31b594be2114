"""
What of a stream's text is the answer and what is reasoning, and how much of it may be shown already. Pure.

A tag may be cut anywhere by the chunks of a stream, so text that could still become one is held. What has been shown and
what is held together are the partial text; no chunking changes them.
"""

import msgspec

from actors.messages.lane import ThinkTags

NAMES = ("think", "thinking", "reasoning", "thought")
OPENING = tuple(f"<{name}>" for name in NAMES)
CLOSING = {f"<{name}>": f"</{name}>" for name in NAMES}

HELD = max(map(len, CLOSING.values()))
"""How many characters ``anywhere`` holds back: the longest tag (turns.md, section 3)."""


class Shown(msgspec.Struct, frozen=True):
    """What a piece of the stream lets be shown."""

    content: str = ""
    reasoning: str = ""


NOTHING = Shown()


class Text(msgspec.Struct, frozen=True):
    """The text of one attempt so far."""

    tags: ThinkTags = ThinkTags.LEADING
    hold_back: bool = False
    content: str = ""
    """What is the answer's for sure."""
    shown: int = 0
    """How many characters of that have been shown."""
    tail: str = ""
    """What may still become a tag."""
    closing: str = ""
    """The tag that ends the reasoning in hand; empty outside of it."""
    thought: bool = False
    """There was reasoning: white space between it and the answer is no part of either."""

    @property
    def partial(self) -> str:
        """All that was shown, and all that is held, reasoning excluded."""
        return self.content if self.closing else self.content + self._begun(self.tail)

    @property
    def length(self) -> int:
        """The characters of ``partial``, without a copy of them: it is looked at for each piece of a long text."""
        return len(self.content) + (0 if self.closing else len(self._begun(self.tail)))

    def feed(self, piece: str) -> tuple["Text", Shown]:
        """Take the stream's next piece of text."""
        if self.tags is ThinkTags.OFF or (self.tags is ThinkTags.LEADING and self.content):
            content = self.content + piece
            return self._show(content, "", shown=len(content))
        anywhere = self.tags is ThinkTags.ANYWHERE
        reasoning, text, rest = "", msgspec.structs.replace(self, tail=""), self.tail + piece
        while True:
            if text.closing:
                before, found, after = rest.partition(text.closing)
                if not found:
                    cut = max(0, len(rest) - HELD)
                    return text._show(text.content, reasoning + rest[:cut], rest[cut:])
                reasoning, rest = reasoning + before, after
                text = msgspec.structs.replace(text, closing="")
            at, tag = _first_tag(rest) if anywhere else _leading_tag(rest)
            if tag is None:
                return text._show(text.content + text._begun(rest[:at]), reasoning, rest[at:])
            content = text.content + text._begun(rest[:at])
            if content.isspace():
                content = ""
            text = msgspec.structs.replace(text, content=content, closing=CLOSING[tag], thought=True)
            rest = rest[at + len(tag) :]

    def finish(self) -> tuple["Text", Shown]:
        """Take the end of the stream: what was held is what it looks like, and all is shown."""
        content, reasoning = self.partial, self.tail if self.closing else ""
        text = msgspec.structs.replace(self, content=content, shown=len(content), tail="", closing="")
        return text, Shown(content[self.shown :], reasoning)

    def _begun(self, piece: str) -> str:
        """Return what a piece adds to the answer: after reasoning that begins with no white space."""
        return piece.lstrip() if self.thought and not self.content else piece

    def _show(
        self, content: str, reasoning: str, tail: str = "", shown: int | None = None
    ) -> tuple["Text", Shown]:
        if self.hold_back:
            shown = self.shown
        elif shown is None:
            # White space alone may still turn out to be that before reasoning.
            shown = self.shown if content.isspace() else len(content)
        text = msgspec.structs.replace(self, content=content, shown=shown, tail=tail)
        return text, Shown(content[self.shown : shown], reasoning)


def _first_tag(text: str) -> tuple[int, str | None]:
    """Return where the first tag is; without one how much can be no part of a tag."""
    places = [(text.find(tag), tag) for tag in OPENING if tag in text]
    return min(places) if places else (max(0, len(text) - HELD), None)


def _leading_tag(text: str) -> tuple[int, str | None]:
    """The same of a text that only its very beginning can make reasoning."""
    head = text.lstrip()
    for tag in OPENING:
        if head.startswith(tag):
            return len(text) - len(head), tag
    may_become = any(tag.startswith(head) for tag in OPENING)
    return 0 if may_become else len(text), None
