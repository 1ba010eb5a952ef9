"""The front door, ``direag``: finds the commands of all packages by their entry points, and loads the one asked for."""

import gc
import os
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated, Any

import typer
from platformdirs import user_cache_path
from typer.core import TyperGroup

from bayes_direag.commands.options import err, out
from bayes_direag.errors import DirEAGError
from bayes_direag.packages import take

#: Packages name their commands under this group of entry points, as ``name = "module:function"``.
GROUP = "direag.commands"


class FrontDoor(TyperGroup):
    """The commands; an expected error becomes one clear line and exit code 2, Ctrl-C exits with 130."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in string order."""
        return sorted(entry_points(group=GROUP).names)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Load a command: the function of its entry point, whose docstring closes with an example."""
        commands = entry_points(group=GROUP)
        if cmd_name not in commands.names:
            return None
        take(commands[cmd_name].module.partition(".")[0])
        function = commands[cmd_name].load()
        text, _, example = str(function.__doc__).rpartition("Example: ")
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
        alone.command(cmd_name, help=text, epilog=f"Example: {example}")(function)
        return typer.main.get_command(alone)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        keep_compiled()
        gc.set_threshold(50_000)  # imports and traces make many objects and few cycles
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (DirEAGError, OSError) as error:
            err.print(f"direag: {error}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            err.print("direag: interrupted; nothing was left half written.")
            raise typer.Exit(130) from None


app = typer.Typer(
    name="direag",
    cls=FrontDoor,
    epilog="Example: direag quickstart",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _say_version(asked: bool) -> bool:
    if asked:
        out.print(version("bayes-direag"))
        raise typer.Exit
    return asked


@app.callback()
def direag(
    _: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and stop.")
    ] = False,
) -> None:
    """Calibrated answers from a language model's own stated confidences."""


def keep_compiled() -> None:
    """Have JAX keep what takes it long to compile in a folder of the user's own; before JAX is imported.

    Whoever has set JAX's own variables (``JAX_COMPILATION_CACHE_DIR``, ``JAX_ENABLE_COMPILATION_CACHE``) is obeyed. A
    folder that cannot be made, or JAX being there already, leaves everything as it was.
    """
    if "jax" in sys.modules or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = compiled_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def compiled_folder() -> Path:
    """Return the folder; it may be emptied at any time."""
    return user_cache_path("bayes-direag", appauthor=False) / "compiled"
