"""Why an answer ends, in OpenAI's words, whatever the backend's are. Pure."""

from actors.messages.lane import TOOL_CALLS

STOP = "stop"
LENGTH = "length"
FILTERED = "content_filter"

_WORDS = {
    STOP: ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed"),
    LENGTH: ("length", "max_tokens", "model_length"),
    TOOL_CALLS: (TOOL_CALLS, "tool_use", "function_call"),
    FILTERED: (FILTERED, "safety", "recitation", "refusal"),
}
_KNOWN = {word: reason for reason, words in _WORDS.items() for word in words}


def finish_reason(word: str) -> str:
    """
    Return the reason that a backend's word stands for.

    A word that is not known is shown to nobody (REL-6). It says at least that the model did not come to an ordinary end:
    such an answer may be cut off, as one that is too long.
    """
    return _KNOWN.get(word.lower(), LENGTH)
