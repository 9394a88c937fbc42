"""Options that commands share, each declared once, such as `--org`, `--pool`, `--limit`, `--json` and `--watch`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import click

from ghapp.cli.api_connection import only_org, query
from ghapp.cli.completion import complete_orgs, complete_pools
from ghapp.cli.context import redraw, settings_here
from ghapp.errors import ConfigurationError, GhappError
from ghapp.report.links import PageLinks
from ghapp.untrusted_text import visible_lines
from ghapp.wording import meant, nearest

Function = TypeVar("Function", bound=Callable[..., Any])

WATCH_SECONDS = 2.0

ORG = click.option(
    "--org",
    shell_complete=complete_orgs,
    help="Only this organization, OWNER/REPOSITORY or enterprises/SLUG (default: all).",
)
ORG_ARGUMENT = click.argument("org", shell_complete=complete_orgs)
POOL = click.option("--pool", shell_complete=complete_pools, help="Only this pool.")
WEB = click.option("--web", is_flag=True, help="Open the page in a browser; in a pipe print its address.")
WATCH = click.option("--watch", is_flag=True, help="Redraw every 2 seconds, until Ctrl-C.")


class HelpfulGroup(click.Group):
    """A command group; without a command it prints its help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "no_args_is_help": False})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the options before the command."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        return super().parse_args(ctx, args)


class NameChoice(click.Choice[str]):
    """One of a few names; an unknown one is reported with the one that may be meant.

    `also` has other words for some of the names: they are taken, too.
    """

    def __init__(self, names: Sequence[str], also: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(names)
        self._also = also

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the name."""
        return super().convert(self._also.get(str(value).lower(), value), param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ARG002 - of click
        """Returns the message."""
        return f"{value!r} is unknown; {meant(str(value), self.choices, 'known are', most=len(self.choices))}"


def limit(things: str, default: int = 100) -> Callable[[Function], Function]:
    """Returns the option `--limit`."""
    text = f"{things} to list."
    return click.option("--limit", type=click.IntRange(min=1), default=default, show_default=True, help=text)


def sort(**orders: str) -> Callable[[Function], Function]:
    """Returns the option `--sort`; `orders` has what each value means, the default first."""
    text = "; ".join(f"{name.replace('_', '-')}: {meaning}" for name, meaning in orders.items())
    names = [name.replace("_", "-") for name in orders]
    return click.option("--sort", type=NameChoice(names), default=names[0], show_default=True, help=f"Order. {text}.")


class CommandOutput(NamedTuple):
    """How a command prints its result.

    Attributes:
        fields: of `--json FIELDS`; empty for plain `--json`; None for text.
        jq: the filter of `--jq`; None without one.
    """

    fields: tuple[str, ...] | None = None
    jq: str | None = None

    @property
    def is_json(self) -> bool:
        """True for JSON, False for text."""
        return self.fields is not None or self.jq is not None

    def print(self, document: Any, rows: Any = None) -> None:
        """Prints a JSON document; with fields only those of its `rows` (default: of the document itself).

        Raises:
            GhappError: the filter does not fit the document.
        """
        chosen = document
        if self.fields:
            rows = document if rows is None else rows
            chosen = [_selected(each, self.fields) for each in rows] if isinstance(rows, list) else None
            chosen = _selected(rows, self.fields) if chosen is None else chosen
        if self.jq is None:
            click.echo(json.dumps(chosen, indent=2))
            return
        try:
            found = _compiled(self.jq).input_value(chosen).all()
        except ValueError as error:
            raise GhappError(f"--jq: {error}") from None
        for each in found:  # texts without quotes, as `gh` prints them; a program gets them as they are
            text = each if isinstance(each, str) else json.dumps(each, separators=(",", ":"))
            click.echo(visible_lines(text) if sys.stdout.isatty() else text)


def _selected(row: Any, fields: Sequence[str]) -> dict[str, Any]:
    return {name: row.get(name) for name in fields}


def _compiled(expression: str) -> Any:
    """Compiles a filter.

    Raises:
        ConfigurationError: the package jq is not installed.
        click.BadParameter: it is no filter.
    """
    try:
        import jq
    except ImportError:
        raise ConfigurationError("--jq: needs the package jq; install ghapp[jq]") from None
    try:
        return jq.compile(expression)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--jq") from None


def json_fields(
    *shapes: type, more: Sequence[str] = (), headers: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Function], Function]:
    """Adds `--json [FIELDS]` and `--jq`; the command gets `output`, an `CommandOutput`.

    Args:
        shapes: typed dictionaries; their fields may be selected.
        more: other fields that may be selected.
        headers: fields by the words that the table has for them, which may be selected, too.
    """
    known = tuple(dict.fromkeys([*more, *(name for shape in shapes for name in shape.__annotations__)]))

    def parse(_: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
        fields = None if value is None else tuple(filter(None, (each.strip() for each in value.split(","))))
        fields = None if fields is None else tuple(headers.get(each, each) for each in fields)
        for name in fields or ():
            if name not in known:
                near = nearest(name, known)
                suggestion = "" if near is None else f"did you mean {near}? "
                message = f"{name!r} is not a field; {suggestion}fields are {', '.join(known)}"
                raise click.BadParameter(message, param=parameter)
        return fields

    def decorate(function: Function) -> Function:
        help_text = "Print JSON: the whole document, or only these fields, separated by commas."
        options = [
            click.option(
                "--json", "fields", is_flag=False, flag_value="", metavar="[FIELDS]", callback=parse, help=help_text
            ),
            click.option("--jq", metavar="EXPRESSION", help="Filter the JSON with a jq expression; implies --json."),
        ]
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class OutputCommand(click.Command):
    """A command with the options of `json_fields`, and perhaps `--watch`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses `--json FIELDS` where a word follows that can only be fields; an argument is no field."""
        words = list(args)
        for index in range(len(words)):
            if words[index] == "--json":
                words[index : index + 2] = self._with_fields(words[index : index + 2])
                break
            if words[index] == "--":
                break
        return super().parse_args(ctx, words)

    def _with_fields(self, words: list[str]) -> list[str]:
        """Joins `--json` and the next word if that is a list of fields; else `--json` stands for the document."""
        option, *rest = words
        takes_arguments = any(isinstance(each, click.Argument) for each in self.params)
        if rest and not rest[0].startswith("-") and not (takes_arguments and not self._are_fields(rest[0])):
            return [f"{option}={rest[0]}"]
        return [f"{option}=", *rest]

    def _are_fields(self, word: str) -> bool:
        parameter = next(each for each in self.params if each.name == "fields")
        try:
            return bool(parameter.callback and parameter.callback(click.Context(self), parameter, word))
        except click.BadParameter:
            return False

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; with `--watch` again and again."""
        if "fields" in ctx.params:
            ctx.params["output"] = output = CommandOutput(ctx.params.pop("fields"), ctx.params.pop("jq"))
            if output.jq is not None:
                _compiled(output.jq)  # before anything is read
        if not ctx.params.pop("watch", False):
            return super().invoke(ctx)
        if ctx.params["output"].is_json or ctx.params.get("web"):
            raise click.UsageError("--watch draws tables; leave out --json, --jq and --web", ctx)
        while True:
            redraw()
            super().invoke(ctx)
            time.sleep(WATCH_SECONDS)


def links(org: str) -> PageLinks:
    """Returns the addresses of an org's pages.

    Raises:
        ConfigurationError: the address of the pages is not known.
    """
    settings = settings_here(over_http=True)
    base = settings.public_url or settings.url
    if base is None:
        raise ConfigurationError("--web: set GHAPP_PUBLIC_URL or GHAPP_URL to the address of the page")
    return PageLinks(base, org)


def links_of(org: str | None) -> PageLinks | None:
    """Returns the addresses of an organization's pages; without `org` of the only one that is known, else None."""
    if org is None:
        with suppress(GhappError):  # a page can be opened without Redis or a token
            org = query(only_org)
    return None if org is None else links(org)


def open_page(url: str | None) -> None:
    """Opens an address in a browser; in a pipe prints it."""
    click.echo(url)
    if url is not None and sys.stdout.isatty():
        click.launch(url)
