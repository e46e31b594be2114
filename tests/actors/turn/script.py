"""Short ways to write what happens to a turn, and to read what its machine wants."""

from actors.messages import turn as events
from actors.messages.lane import FailureClass, LaneBinding, LaneTraits, ThinkTags
from actors.turn import effects, happenings
from actors.turn.machine import step
from actors.turn.settings import TurnSettings
from actors.turn.state import State

SETTINGS = TurnSettings()
FINISHED = happenings.Finished("stop", {"total_tokens": 3})
ARMED = happenings.Armed()
OVER = happenings.BackoffOver()
STOP = happenings.StopAsked("user")
DIED = happenings.Failed(FailureClass.INCOMPLETE, "ReadError")
REFUSED = happenings.Failed(FailureClass.CONNECT, "ConnectError")
OVERFLOW = happenings.Failed(FailureClass.OVERFLOW, "ContextOverflow")
BUSY = happenings.Failed(FailureClass.RATE_LIMITED, "RateLimited", 5.0, 0.0)
FAULT = happenings.Failed(FailureClass.PREPARATION, "ValueError")
COMPACTED = happenings.Compacted(4)
DENIED = happenings.Failed(FailureClass.AUTH_REFUSED, "AuthRefused")


def lane(name="main", *, degraded=False, tags=ThinkTags.OFF, **traits):
    """A lane as /lanes binds it."""
    known = LaneTraits(name=name, kind="openai", model="m", backend="http://h", think_tags=tags, **traits)
    return LaneBinding(traits=known, gen=0, lane=None, degraded=degraded)


MAIN = lane()


def text(content, reasoning=""):
    return happenings.Delta(content, reasoning)


class Play:
    """A turn's machine with what it wanted so far. It answers Resolve with its lanes at once, unless told not to."""

    def __init__(self, *lanes, settings=SETTINGS, model=None, resolves=True, prompt_chars=8, runs_tools=True):
        self.lanes = lanes or (MAIN,)
        self.settings = settings
        self.resolves = resolves
        self.state = State()
        self.wanted = []
        self.feed(happenings.Begun(model, prompt_chars=prompt_chars, runs_tools=runs_tools))

    def feed(self, *happened):
        """Let things happen, in order."""
        for event in happened:
            self.state, wanted = step(self.state, event, self.settings)
            self.wanted += wanted
            for effect in wanted:
                if isinstance(effect, effects.Resolve) and self.resolves:
                    self.feed(happenings.Resolved(effect.request, self.lanes))
        return self

    def all(self, kind):
        return [effect for effect in self.wanted if isinstance(effect, kind)]

    @property
    def emitted(self):
        return self.all(effects.Emit)

    @property
    def kinds(self):
        return [emit.kind for emit in self.emitted]

    def of(self, kind):
        """The fields of the events of one kind."""
        return [emit.fields for emit in self.emitted if emit.kind is kind]

    @property
    def contents(self):
        return [fields["text"] for fields in self.of(events.Content)]

    @property
    def requests(self):
        """The lanes that were asked, in order."""
        return [effect.lane.traits.name for effect in self.all(effects.OpenAttempt)]

    @property
    def end(self):
        """The end that was stored, once or several times."""
        (end,) = {id(effect.end): effect.end for effect in self.all(effects.Store)}.values()
        return end
