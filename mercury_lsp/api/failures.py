"""What a client is told when a request fails: status, type, code, one line of text, in the published envelope."""

from typing import Any


class ApiError(Exception):
    """An answer other than 200. Envelope: {"error": {message, type, param, code}}."""

    def __init__(
        self,
        status: int,
        kind: str,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code
        self.message = message
        self.param = param
        self.headers = headers or {}

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def invalid(message: str, param: str | None = None, code: str = "invalid_request_error") -> ApiError:
    return ApiError(400, "invalid_request_error", code, message, param=param)


def too_long(n_tokens: int, limit: int, param: str) -> ApiError:
    message = f"the request has {n_tokens} tokens, this server reads {limit}: send less text around the place"
    return invalid(message, param, "context_length_exceeded")


def too_large(limit: int) -> ApiError:
    return ApiError(413, "invalid_request_error", "request_too_large", f"the body is larger than {limit} bytes")


def unknown_model(name: str, known: str) -> ApiError:
    message = f"there is no model {name[:80]!r} here: use {known!r} or a Mercury name"
    return ApiError(404, "invalid_request_error", "model_not_found", message, param="model")


def unauthorised() -> ApiError:
    message = "the API key is missing or wrong: send it as `Authorization: Bearer KEY`"
    return ApiError(401, "authentication_error", "invalid_api_key", message, headers={"www-authenticate": "Bearer"})


def forbidden(message: str) -> ApiError:
    return ApiError(403, "permission_error", "forbidden", message)


def too_many() -> ApiError:
    message = "too many requests wait already: try again in a moment"
    return ApiError(429, "rate_limit_error", "rate_limit_reached", message, headers={"retry-after": "1"})


def overloaded(message: str) -> ApiError:
    return ApiError(503, "server_error", "overloaded", message, headers={"retry-after": "20"})


def broken(message: str) -> ApiError:
    return ApiError(500, "server_error", "server_error", message)
