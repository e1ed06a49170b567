"""Generated requests of every shape our OpenAPI document allows, and many it does not: never a 5xx."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from mercury_lsp.api.app import Options, build
from mercury_lsp.api.pool import Pool
from tests.fakes import FakeInfiller

app = build(Pool(lambda report: FakeInfiller('{"a": 1} and words', per_step=3)), Options(name="mercury"))


async def without_lifespan(scope: Any, receive: Any, send: Any) -> None:
    """Each generated call would start and stop the application, and with it the pool."""
    if scope["type"] == "http":
        await app(scope, receive, send)
        return
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


schema = schemathesis.openapi.from_asgi("/openapi.json", without_lifespan)


@schema.parametrize()
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_request_brings_the_server_down(case: schemathesis.Case) -> None:
    if isinstance(case.body, dict) and case.body.get("model"):
        case.body["model"] = "mercury"  # or nearly all would end at an unknown model
    response = case.call()
    case.validate_response(response, checks=[not_a_server_error])
