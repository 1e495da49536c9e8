"""What a person typed becomes a command. In: a comment's body. Out: at most one `Command`.

A command is the first token of a line of ordinary text, as GitHub shows the comment; everything a
person quotes, codes, lists or cannot see is inert (`command_lines`). Mistakes are commands too
(`Unknown`, `BadOption`): they are answered, never started and never met with silence.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

from webhooks.command_lines import SPACE, CommandLine, CommandLines, find_command_lines
from webhooks.command_options import BadOption, Options, parse_options, shown
from webhooks.edit_distance import nearest
from webhooks.hidden_text import Removed, VisibleText, hidden_spans, visible_part
from webhooks.markdown import line_starts, normalize


@dataclass(frozen=True, slots=True)
class Start:
    """Start a run."""

    request: str
    """As typed, without what a reader cannot see; empty means the issue itself is the request."""
    base: str | None = None
    """Branch to work on; None means the repository's default branch."""
    suites: tuple[str, ...] = ()
    """Ids of suites to run besides the required ones, without repetition."""
    removed: tuple[Removed, ...] = ()
    """What was hidden in the request and is gone."""


@dataclass(frozen=True, slots=True)
class Go:
    """Let a run that waits for a go continue."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop the run."""


@dataclass(frozen=True, slots=True)
class Status:
    """Say where the run stands."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Continue where the run failed."""


@dataclass(frozen=True, slots=True)
class Revise:
    """One further run on the same branch, with this feedback."""

    feedback: str
    """As typed, without what a reader cannot see; empty when there was none, which is answered."""
    removed: tuple[Removed, ...] = ()


@dataclass(frozen=True, slots=True)
class Refresh:
    """Build the candidate anew on the base as it is now."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Show the chain of evidence of a commit."""

    sha: str | None
    """Lower-case hex digits, perhaps abbreviated; None means the run's candidate."""


@dataclass(frozen=True, slots=True)
class Help:
    """Say what the commands are."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A single word that is nearly a command."""

    word: str
    did_you_mean: str


Command: TypeAlias = (
    Start | Go | Cancel | Status | Retry | Revise | Refresh | Verify | Help | Unknown | BadOption
)


@dataclass(frozen=True, slots=True)
class ParsedComment:
    """What a comment asks of the bot."""

    command: Command | None = None
    """The first command; None when the comment holds none, and is met with silence or a hint."""
    ignored_second_command: bool = False
    """A later line was a command too. It ended the request and is answered with a note."""
    hint: bool = False
    """No command, but a line that looks like one to its writer and that Markdown folded into a
    quote, list, table, footnote or HTML: a blank line before it would have made it count."""


def parse_command(body: str) -> ParsedComment:
    """Read a comment's body as the payload carries it; pure, and never raises.

    Bodies are at most 65,536 characters on GitHub; more is not read. Hostile ones cost up to a few
    seconds of computing: call it from a job, in a thread of its own.
    """
    source = normalize(body)
    found = find_command_lines(source)
    if not found.commands:
        return ParsedComment(hint=found.has_folded)
    first = found.commands[0]
    command = _parse_line(_Typed(source, first, _end_of_request(source, found)))
    return ParsedComment(command, ignored_second_command=len(found.commands) > 1)


# --- The command's own line ------------------------------------------------------------------


_BLANK_LINES = re.compile(r"(?:[^\S\n]*\n)*")


@dataclass(frozen=True, slots=True)
class _Typed:
    """A command as it stands in the source."""

    source: str
    line: CommandLine
    end: int
    """Where the request ends, if this is one."""

    @property
    def rest_of_line(self) -> str:
        """What follows the word on its line."""
        line_end = self.source.find("\n", self.line.word_end)
        return self.source[self.line.word_end : line_end if line_end >= 0 else None]

    def text_from(self, offset: int) -> VisibleText:
        """The visible text from an offset to the end of the request, code word for word."""
        visible = visible_part(self.source, hidden_spans(self.source), offset, self.end)
        first_line, line_feed, others = visible.text.partition("\n")
        if first_line.strip():
            text = first_line.strip() + line_feed + others
        else:
            text = _BLANK_LINES.sub("", others, count=1)  # an indentation below may be code
        return VisibleText(text.rstrip(), visible.removed)


def _end_of_request(source: str, found: CommandLines) -> int:
    """The next command line, a signature (`--`), or the end of the comment."""
    first, *later = found.commands
    end = later[0].start if later else len(source)
    lines = source[first.start : end].split("\n")
    starts = line_starts(source)
    for number, line in enumerate(lines, first.line):
        if line in ("--", "-- ") and number not in found.verbatim_lines:
            return starts[number]
    return end


_TOKEN = re.compile(rf"[^{SPACE}]+")


def _parse_line(typed: _Typed) -> Command:
    tokens = list(_TOKEN.finditer(typed.rest_of_line))
    options = parse_options([token[0] for token in tokens])
    if isinstance(options, BadOption):
        return options
    words = tokens[options.length :]
    command = None if options.closed else _parse_command_words(words, typed)
    if command is None:
        start = words[0].start() if words else len(typed.rest_of_line)
        return _start(typed.text_from(typed.line.word_end + start), options)
    if options.length and not isinstance(command, Unknown):
        option, _, _ = tokens[0][0].partition("=")
        return BadOption(option.lower(), "not_with_command", value=words[0][0].lower())
    return command


def _parse_command_words(words: list[re.Match[str]], typed: _Typed) -> Command | None:
    """The command these words of the line are; None where they begin a request."""
    if words and words[0][0].lower() == "revise":
        feedback = typed.text_from(typed.line.word_end + words[0].end())
        return Revise(feedback.text, feedback.removed)
    return _parse_bare([word[0] for word in words])


def _start(request: VisibleText, options: Options) -> Start | Unknown:
    """A run, unless hidden text is all that made a command look like a request."""
    first_line = request.text.partition("\n")[0]
    hides = bool(request.removed) and not options.closed
    if hides and _parse_bare(_TOKEN.findall(first_line)) is not None:
        word = first_line.split()[0].lower()
        return Unknown(word, nearest(word, _COMMAND_WORDS) or word)
    return Start(request.text, options.base, options.suites, request.removed)


_BARE_COMMANDS: dict[str, Command] = {
    "status": Status(),
    "help": Help(),
    "go": Go(),
    "cancel": Cancel(),
    "retry": Retry(),
    "refresh": Refresh(),
    "verify": Verify(None),
}
_COMMAND_WORDS = (*_BARE_COMMANDS, "revise")
_SHA = re.compile(r"(?=[a-f]*[0-9])[0-9a-f]{4,64}|[a-f]{7,64}")
"""Perhaps abbreviated; `verify added` and the like are words."""


def _parse_bare(words: list[str]) -> Command | None:
    """A command that fills its line; None where the line is (the beginning of) a request."""
    match [word.lower() for word in words]:
        case [word] if word in _BARE_COMMANDS:
            return _BARE_COMMANDS[word]
        case ["verify", sha] if _SHA.fullmatch(sha.strip("`")):
            return Verify(sha.strip("`"))
        case [word] if command := nearest(word, _COMMAND_WORDS):
            return Unknown(shown(word), command)
        case _:
            return None
