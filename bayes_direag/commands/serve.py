"""The command ``direag serve``: a fit as a service over HTTP, with a form to try it; what it is sent is not kept."""

import base64
import hashlib
import json
import re
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_direag.commands import options
from bayes_direag.commands.console import visible
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from bayes_direag.fits.fit import Fit

type Message = MutableMapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]

_PAGE = Path(__file__).with_name("serve.html")
#: Largest body of a request in bytes.
LARGEST_BODY = 1 << 20


def serve_command(
    fit: Annotated[Path, typer.Argument(metavar="FIT", help="A fit, as `direag fit` writes it.")],
    host: Annotated[str, typer.Option(help="The address to listen at. By default this machine alone can ask.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    preset: options.ProgramOption = None,
) -> None:
    """Answer questions over HTTP, each from its reports, until Ctrl-C.

    POST /answer takes the reports on one question as JSON, and gives the answer with its probability. What cannot be
    used is refused with status 422 and the reason. GET /health says which fit answers, and / is a form to try it.

    Nothing that is sent is kept. There is no password: put a proxy in front before others can reach it.

    Example: direag serve fit.nc --port 8000
    """
    try:
        import uvicorn

        learned = options.load_fit(fit, preset)
        with options.progress() as step:
            step("compiling")
            app = service(learned)
    except ModuleNotFoundError as error:
        raise DirEAGError(
            f"serve: there is no module {error.name!r}; expected FastAPI and uvicorn. Install them: "
            "pip install '.[serve]' in the checkout of bayes-direag"
        ) from error
    with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        name = f"[{host}]" if ":" in host else host
        options.out.print(f"{fit}: http://{name}:{listening.getsockname()[1]} answers. Ctrl-C ends it.", soft_wrap=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


def service(fit: "Fit", largest_body: int = LARGEST_BODY) -> "FastAPI":
    """Return an ASGI application that answers by a fit: ``POST /answer``, ``GET /health``, and a form at ``/``.

    The program is compiled here, so that the first answer is as fast as others. A body that is larger than
    ``largest_body`` bytes is refused with status 413 before it is read whole, and reports that the fit refuses with
    status 422 and its message as ``detail``.
    """
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.responses import HTMLResponse
    from pydantic_core import from_json

    from bayes_direag.data.json_lines import field_twice

    app = FastAPI(title="bayes-direag", docs_url=None, redoc_url=None)  # their pages load scripts from elsewhere
    page, policy = _page(fit)
    fit.prepare()

    @app.post("/answer")
    async def answer(request: Request) -> dict[str, Any]:
        body = (await request.body()).decode(errors="replace")
        try:
            reports = from_json(body)
        except ValueError as error:
            raise HTTPException(422, f"this is not JSON ({error}); expected a list of reports. Correct it.") from error
        if (field := field_twice(body, reports)) is not None:
            raise HTTPException(422, f"field {field}: it is there twice in one object; expected it once. Remove one.")
        if not isinstance(reports, list):
            seen = str(reports)[:60]
            raise HTTPException(422, f"reports: saw {seen!r}; expected a list of reports. Make a list of them.")
        try:
            return fit.answer(reports)
        except DirEAGError as error:
            raise HTTPException(422, str(error)) from error

    @app.get("/health")
    async def health() -> dict[str, Any]:
        about = {name: str(fit.tree.attrs[name]) for name in ("method", "seed", "observations_sha256", "versions")}
        return {"status": "ok", "answers": fit.answers, "levels": fit.level_names, "fit": repr(fit), **about}

    @app.get("/", response_class=HTMLResponse)
    async def form() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    app.add_middleware(_Limited, largest_body=largest_body)
    return app


class _Limited:
    """Refuse a request once more bytes than allowed have come."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]], largest_body: int) -> None:
        self._app, self._largest_body = app, largest_body

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        from fastapi import HTTPException

        n_bytes = 0

        async def counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self._largest_body:
                raise HTTPException(
                    413, f"saw more than {self._largest_body} bytes; expected the reports on one question."
                )
            return message

        await self._app(scope, counted, send)


def _page(fit: "Fit") -> tuple[str, str]:
    """Return the form, and the policy under which a browser runs its one script and nothing else."""
    html = _PAGE.read_text(encoding="utf-8")
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256((script[1] if script else "").encode()).digest()).decode()
    about = {
        "levels": [{"name": name, "shown": visible(name), "votes": name in fit.voting} for name in fit.level_names],
        "scale": (fit.columns and fit.columns.scale) or "percent",
    }
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; connect-src 'self'"
    return html.replace("ABOUT", json.dumps(about).replace("<", "\\u003c"), 1), policy
