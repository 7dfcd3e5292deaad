"""`/docs`, to which `/` leads: the API to read and try out, from files that come with a package, so that it works
without internet.
"""

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

_ASSETS = "/docs-assets"
_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def install(app: FastAPI) -> None:
    """Serve the page and its assets."""
    app.mount(_ASSETS, StaticFiles(directory=str(files("fastapi_offline") / "static")), name="docs-assets")

    @app.get("/", include_in_schema=False)
    async def start(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '').rstrip('/')}/docs")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        page = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_js_url=f"{root}{_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{root}{_ASSETS}/favicon.png",
        )
        scripts = " ".join(f"'sha256-{digest}'" for digest in _digests(bytes(page.body)))
        page.headers["Content-Security-Policy"] = (
            f"default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'self' {scripts};"
            " style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
        )
        return page


def _digests(page: bytes) -> list[str]:
    """SHA-256 of the scripts that stand in the page itself, as a policy names those that may run."""
    return [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE.findall(page)]
