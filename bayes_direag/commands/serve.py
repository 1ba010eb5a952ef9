"""The command ``direag serve``: a fit as a service over HTTP, with a form to try it; what it is sent is not kept."""

import asyncio
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
#: Largest body of a request in bytes, the seconds in which it must have come, and how many requests wait at most.
LARGEST_BODY, DEADLINE, MOST_REQUESTS = 1 << 20, 10.0, 64


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
            app = service(learned, host=host)
    except ModuleNotFoundError as error:
        raise DirEAGError(
            f"serve: there is no module {error.name!r}; expected FastAPI and uvicorn. Install them: "
            "pip install '.[serve]' in the checkout of bayes-direag"
        ) from error
    with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        name = f"[{host}]" if ":" in host else host
        options.out.print(f"{fit}: http://{name}:{listening.getsockname()[1]} answers. Ctrl-C ends it.", soft_wrap=True)
        config = uvicorn.Config(
            app,
            http=protocol(DEADLINE),
            limit_concurrency=MOST_REQUESTS,
            timeout_graceful_shutdown=5,
            log_level="error",  # one warning for each of a thousand refused requests helps nobody
        )
        uvicorn.Server(config).run(sockets=[listening])


def service(
    fit: "Fit", largest_body: int = LARGEST_BODY, *, host: str | None = None, deadline: float = DEADLINE
) -> "FastAPI":
    """Return an ASGI application that answers by a fit: ``POST /answer``, ``GET /health``, and a form at ``/``.

    The program is compiled here, so that the first answer is as fast as others. A body that is larger than
    ``largest_body`` bytes is refused with status 413 before it is read whole, one that has not come whole after
    ``deadline`` seconds with 408, and reports that the fit refuses with status 422; the reason is always ``detail``.
    Bound to one ``host``, requests for another are refused with 421, so that no page of another site reaches it.
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
        if not (isinstance(reports, list) and all(isinstance(report, dict) for report in reports)):
            seen, says = str(reports)[:60], "expected a list of reports, each an object. Make a list of them."
            raise HTTPException(422, f"reports: saw {seen!r}; {says}")
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

    app.add_middleware(_Limited, largest_body=largest_body, deadline=deadline, host=host)
    return app


def protocol(deadline: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, with connections closed whose request has no whole head after this many seconds."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Prompt(H11Protocol):
        _closing: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._closing = self.loop.call_later(deadline, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:  # the head of a request is missing, or a part of it
                self._closing = self._closing or self.loop.call_later(deadline, self.transport.close)
            elif self._closing is not None:
                self._closing.cancel()
                self._closing = None

    return Prompt


class _Limited:
    """Refuse a request for another host, and once more bytes or seconds than allowed have passed."""

    def __init__(
        self,
        app: Callable[[Message, Receive, Send], Awaitable[None]],
        largest_body: int,
        deadline: float,
        host: str | None,
    ) -> None:
        self._app, self._largest_body, self._deadline, self._host = app, largest_body, deadline, host

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        from fastapi import HTTPException
        from fastapi.responses import JSONResponse

        if scope["type"] != "http":  # the service's own start and end
            await self._app(scope, receive, send)
            return
        asked = dict(scope.get("headers", ())).get(b"host", b"").decode("latin-1")
        if not _is_bound(asked, self._host):
            says = f"saw the host {asked[:60]!r}; expected {self._host}, at which this service listens."
            await JSONResponse({"detail": says}, 421)(scope, receive, send)
            return
        n_bytes, until = 0, asyncio.get_running_loop().time() + self._deadline

        async def counted() -> Message:
            nonlocal n_bytes
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError as error:
                raise HTTPException(408, f"the request has not come whole in {self._deadline:g} seconds.") from error
            n_bytes += len(message.get("body", b""))
            if n_bytes > self._largest_body:
                raise HTTPException(
                    413, f"saw more than {self._largest_body} bytes; expected the reports on one question."
                )
            return message

        await self._app(scope, counted, send)


def _is_bound(asked: str, host: str | None) -> bool:
    """Return whether a request's host is the one that is bound; any is, of an address that stands for all."""
    if host is None or host in ("0.0.0.0", "::"):  # noqa: S104 - asked for by name
        return True
    name = re.sub(r":\d+$", "", asked).strip("[]").lower()
    local = {"127.0.0.1", "localhost", "::1"}
    return name == host.lower() or (host in local and name in local)


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
