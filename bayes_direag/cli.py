"""The command line, ``direag``: finds the commands of all packages by their entry points, and loads the given one."""

import gc
import inspect
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points, version
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from platformdirs import user_cache_path
from typer.core import TyperGroup

from bayes_direag.commands.options import err, naming_replaced, out
from bayes_direag.errors import ColumnsWarning, DirEAGError, abridged, did_you_mean
from bayes_direag.modules import take

#: The group of entry points in which packages declare their commands, as ``name = "module:function"``.
GROUP = "direag.commands"
#: The commands in the order of the work, by the panel of the help that they stand in; others follow.
PANELS = {
    "Start": ("quickstart", "simulate"),
    "Fit and predict": ("label", "fit", "show", "predict", "serve"),
    "Decide": ("policy", "explain"),
    "Look": ("evaluate", "report", "compare", "diagnose"),
    "Ask a model": ("elicit", "import"),
    "Paper": ("paper",),
}


class FrontDoor(TyperGroup):
    """The commands. An expected error is one line and exit code 2; Ctrl-C exits with 130, SIGTERM with 143.

    A crash exits with 70, which no command does by itself.
    """

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, in the order of the work."""
        known = [name for names in PANELS.values() for name in names]
        names = sorted(entry_points(group=GROUP).names)
        return [*(name for name in known if name in names), *(name for name in names if name not in known)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Load the function of a command's entry point; its docstring ends with examples."""
        commands = entry_points(group=GROUP)
        if cmd_name not in commands.names:
            return None
        take(commands[cmd_name].module.partition(".")[0])
        function = commands[cmd_name].load()
        text, _, example = inspect.cleandoc(str(function.__doc__)).partition("Example: ")
        panel = next((panel for panel, names in PANELS.items() if cmd_name in names), None)
        command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
        command.command(cmd_name, help=text, epilog=f"Example: {example}", rich_help_panel=panel)(function)
        return typer.main.get_command(command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the given command, or say which one may have been meant."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = " direag predict prints the estimate." if args[0] == "estimate" else did_you_mean(args[0], names)
            raise DirEAGError(f"there is no command {args[0]!r}.{near} See direag --help.")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command line, whatever characters standard output takes; without arguments, print the help."""
        words = settings.pop("args", args[0] if args else None)
        typed, alone = sys.argv[1:] if words is None else list(words), settings.pop("standalone_mode", True)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        try:
            status = super().main(typed or ["--help"], standalone_mode=False, **settings)
        except Exception as error:
            if hasattr(error, "format_message"):
                err.print(_typed_wrong(error))
                sys.exit(2)
            platform = _unusable_platform()
            if platform is not None:
                err.print(f"direag: {platform}")
                sys.exit(2)
            err.print(abridged(traceback.format_exc(), 20_000), end="")
            err.print("direag: this is a fault of direag itself. Please report the lines above.")
            sys.exit(70)
        if alone:
            sys.exit(status)
        return status

    def invoke(self, ctx: Any) -> Any:
        """Run the given command."""
        keep_compiled()
        gc.set_threshold(50_000)  # imports and JAX traces create many objects and few cycles
        with _sigterm_as_ctrl_c() as received, naming_replaced(), warnings.catch_warnings():
            warnings.simplefilter("always", ColumnsWarning)
            warnings.showwarning = lambda message, *_, **__: err.print(str(message))  # whose controls are shown
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                out.on_broken_pipe()
            except (DirEAGError, OSError) as error:
                err.print(f"direag: {abridged(str(error))}")
                raise typer.Exit(2) from None
            except KeyboardInterrupt:
                err.print("direag: interrupted; nothing was left half written.")
                raise typer.Exit(128 + (received or [signal.SIGINT])[0]) from None


def _typed_wrong(error: Any) -> str:
    """Return the line that says what was typed wrong, what may have been meant, and where to read more."""
    near = getattr(error, "possibilities", None) or ()
    text = error.message if near else error.format_message()
    meant = did_you_mean(error.option_name, near) if near else ""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "direag"
    said = " ".join(str(text).replace("Value error, ", "").split()).rstrip(".")
    return f"direag: {said}.{meant} See {command} --help."


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """Let SIGTERM interrupt the block as Ctrl-C would, and yield a list to which its number is then added.

    Python drops what is raised in a callback, such as JAX's for the garbage collector; the block is then interrupted
    once more, a moment later.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            received.append(number)
        on_ctrl_c = signal.getsignal(signal.SIGINT)  # that of asyncio while it runs
        if not callable(on_ctrl_c):  # a shell has its jobs in the background ignore Ctrl-C
            raise KeyboardInterrupt
        on_ctrl_c(number, frame)

    def dropped(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        else:
            hook(unraisable)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGALRM)}
    hook, sys.unraisablehook = sys.unraisablehook, dropped
    try:
        yield received
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _unusable_platform() -> str | None:
    """Return the message for a ``JAX_PLATFORMS`` with which JAX cannot start here, None if it can or was not loaded."""
    chosen = os.environ.get("JAX_PLATFORMS")
    if chosen and "jax" in sys.modules:
        import jax

        try:
            jax.devices()
        except (RuntimeError, AssertionError):
            return f"JAX_PLATFORMS={chosen}: JAX has no such device here; expected cpu, or no JAX_PLATFORMS. Unset it."
    return None


app = typer.Typer(
    name="direag",
    cls=FrontDoor,
    epilog="Example: direag quickstart",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _say_version(asked: bool) -> bool:
    if asked:
        out.print(version("bayes-direag"))
        raise typer.Exit
    return asked


@app.callback()
def top_level(
    _: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Calibrated answers from a language model's own stated confidences."""


def keep_compiled() -> None:
    """Let JAX cache compiled functions in a folder of the user; call it before JAX is imported.

    JAX's own variables (``JAX_COMPILATION_CACHE_DIR``, ``JAX_ENABLE_COMPILATION_CACHE``) take precedence. If the folder
    cannot be made, or JAX has been imported, nothing changes.
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
    """Return the folder of the cache; it may be emptied at any time."""
    return user_cache_path("bayes-direag", appauthor=False) / "compiled"
