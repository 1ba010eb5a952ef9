"""What commands say of themselves: their help on 80 columns, and in one line what was typed wrong."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from bayes_direag.commands.console import PlainConsole
from bayes_direag.errors import did_you_mean

#: Columns of the help, and of the names of options in it.
_WIDTH, _NAMES = 80, 30
#: The word for a value of a type, as Typer names it; choices and other words are shown as they are.
_VALUES: Mapping[str, str] = {
    "path": "PATH",
    "list[Path]": "PATH",
    "str": "TEXT",
    "int": "N",
    "int range": "N",
    "float": "X",
    "float range": "X",
    "bool": "",
}
#: The groups of options that every command may have.
NEEDED, COMMON = "What it needs", "Options"


class GroupedCommand(TyperCommand):
    """A command whose help shows what it needs, then the common options, then its other groups."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        groups = option_groups(self, ctx)
        formatter.write(help_text(f"{ctx.command_path} {' '.join(groups[NEEDED])} [OPTIONS]", self, groups))


def option_groups(command: Any, ctx: Any) -> dict[str, dict[str, str]]:
    """Return what a command takes by group, each option with its meaning: the needed, the common, then the others."""
    groups: dict[str, dict[str, str]] = {NEEDED: {}, COMMON: {}}
    for parameter in command.get_params(ctx):
        group = NEEDED if parameter.required else getattr(parameter, "rich_help_panel", None) or COMMON
        groups.setdefault(group, {})[_name(parameter, ctx)] = _meaning(parameter)
    return groups


def help_text(usage: str, command: Any, groups: Mapping[str, Mapping[str, str]]) -> str:
    """Return the help of a command: how it is called, what it does, what may be said by group, and examples."""
    console = PlainConsole(width=_WIDTH)
    with console.capture() as captured:
        console.print(Group(*_blocks(usage, command, groups)))
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _blocks(usage: str, command: Any, groups: Mapping[str, Mapping[str, str]]) -> Iterator[RenderableType]:
    yield Text(f"Usage: {' '.join(usage.split())}\n")
    yield from _paragraphs(command.help)
    for title, rows in groups.items():
        if rows:
            table = Table.grid(padding=(0, 0, 0, 2))
            table.add_column(overflow="fold", max_width=_NAMES + 2)
            table.add_column(overflow="fold")
            for name, meaning in rows.items():
                table.add_row(Text(name), Text(meaning))
            yield Group(Text(title, style="bold"), table, "")
    yield from _paragraphs(command.epilog)


def _paragraphs(text: str | None) -> Iterator[Text]:
    for paragraph in inspect.cleandoc(text or "").strip().split("\n\n"):
        yield Text(f"{' '.join(paragraph.split())}\n")


def _name(parameter: Any, ctx: Any) -> str:
    """Return an option with the word for its value, or the word for an argument."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    value = str(parameter.display_type_rich(ctx) or "").strip("<>")
    return f"{'/'.join(parameter.opts)} {_VALUES.get(value, value)}".rstrip()


def _meaning(parameter: Any) -> str:
    """Return the help of an option, with its default where that says something."""
    default = parameter.default
    shown = default is not None and default is not False and default != "" and not callable(default)
    return f"{parameter.help or ''}{f' [default: {default}]' if shown and parameter.show_default else ''}".strip()


def typed_wrong(error: Any) -> str:
    """Return the line that says what was typed wrong, what may have been meant, and where to read more."""
    near = getattr(error, "possibilities", None) or ()
    text = error.message if near else error.format_message()
    meant = did_you_mean(error.option_name, near) if near else ""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "direag"
    said = " ".join(str(text).replace("Value error, ", "").split()).rstrip(".")
    return f"direag: {said}.{meant} See {command} --help."
