"""The shapes of requests and answers, as Mercury publishes them; every field that a client may send has its type here.

What is honoured: model, messages, prompt, suffix, max_tokens, stop, temperature, top_p, top_k, seed, stream,
stream_options, diffusing, tools, tool_choice, response_format, reasoning_effort. Accepted without effect, because a
draft is checked against the model's own choice, which they would bend: presence_penalty, frequency_penalty,
repetition_penalty; because there is no reasoning: realtime, reasoning_summary. Unknown fields are ignored. Our own
fields are `policy`, `canvas`, and those of FimRequest from `path` on.

This module knows nothing about the model.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mercury_model.draft import Effort

FIM_STOP = ("\n\n", "\n \n")
MAX_SEED = 2**63 - 1

Text = Annotated[str, Field(max_length=2_000_000)]
Stop = (
    Annotated[str, Field(max_length=1000)]
    | Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=64)]
)
Penalty = Annotated[float, Field(ge=-2, le=2)] | None


class Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=True)


class StreamOptions(Shape):
    include_usage: bool | None = None


class Sampling(Shape):
    """What all endpoints share."""

    model: Annotated[str, Field(max_length=200)]
    stop: Stop | None = None
    temperature: float | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=1000)] | None = None
    seed: Annotated[int, Field(ge=-MAX_SEED, le=MAX_SEED)] | None = None
    presence_penalty: Penalty = None
    frequency_penalty: Penalty = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    n: Literal[1] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    diffusing: bool | None = None
    reasoning_effort: Effort | None = None
    policy: Annotated[str, Field(max_length=40)] | None = None
    canvas: bool | None = None


class Part(Shape):
    type: str
    text: Text | None = None


class CalledFunction(Shape):
    name: str
    arguments: str = "{}"


class ToolCall(Shape):
    id: str | None = None
    type: Literal["function"] | None = None
    function: CalledFunction


class Message(Shape):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class Function(Shape):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(Shape):
    type: Literal["function"]
    function: Function


class NamedFunction(Shape):
    name: str


class NamedTool(Shape):
    type: Literal["function"]
    function: NamedFunction


class JsonSchema(Shape):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    name: str
    description: str | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(Shape):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class ChatRequest(Sampling):
    messages: Annotated[list[Message], Field(min_length=1, max_length=2000)]
    max_tokens: Annotated[int, Field(ge=1, le=50_000)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=50_000)] | None = None
    tools: Annotated[list[Tool], Field(max_length=128)] | None = None
    tool_choice: Literal["auto", "required", "none"] | NamedTool | None = None
    response_format: ResponseFormat | None = None
    realtime: bool | None = None
    reasoning_summary: bool | None = None
    reasoning_summary_wait: bool | None = None


class ContextPiece(Shape):
    """Text of another place, shown to the model under its path."""

    path: str
    text: Text


class FimRequest(Sampling):
    prompt: Text | Annotated[list[Text], Field(min_length=1, max_length=1)]
    suffix: Text | None = None
    max_tokens: Annotated[int, Field(ge=1, le=8192)] | None = None
    path: Annotated[str, Field(max_length=1000)] | None = None
    language: Annotated[str, Field(max_length=40)] | None = None
    context: Annotated[list[ContextPiece], Field(max_length=64)] | None = None
    original: Text | None = None
    instruction: Annotated[str, Field(max_length=20_000)] | None = None


class EditRequest(Sampling):
    messages: Annotated[list[Message], Field(min_length=1, max_length=20)]
    max_tokens: Annotated[int, Field(ge=1, le=8192)] | None = None


# --- answers ---------------------------------------------------------------------------------------------------------


class TokenDetails(BaseModel):
    reasoning_tokens: int = 0


class PromptDetails(BaseModel):
    cached_tokens: int = 0


class Usage(BaseModel):
    """forwards: passes of the model, prefill apart. time_to_first_text_ms: from the arrival of the request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    reasoning_tokens: int = 0
    cached_input_tokens: int = 0
    prompt_tokens_details: PromptDetails
    completion_tokens_details: TokenDetails
    forwards: float
    time_to_first_text_ms: float | None = None


Finish = Literal["stop", "length", "tool_calls", "content_filter"]


class AnsweredFunction(BaseModel):
    name: str
    arguments: str


class AnsweredToolCall(BaseModel):
    id: str
    type: Literal["function"]
    function: AnsweredFunction


class AnswerMessage(BaseModel):
    role: Literal["assistant"]
    content: str | None
    tool_calls: list[AnsweredToolCall] = []
    tool_call_id: str | None = None


class ChatChoice(BaseModel):
    index: int
    message: AnswerMessage
    finish_reason: Finish


class TextChoice(BaseModel):
    index: int
    text: str
    finish_reason: Finish


class ReasoningSummary(BaseModel):
    content: str | None
    status: Literal["complete", "unavailable", "skipped"]


class ChatAnswer(BaseModel):
    id: str
    object: Literal["chat.completion", "edit.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    warning: str | None
    reasoning_summary: ReasoningSummary | None = None


class TextAnswer(BaseModel):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage
    warning: str | None


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    error: ErrorDetail


class Health(BaseModel):
    """state: loading, ready, problem or closed. message: what is being done, or what is wrong and the remedy."""

    state: str
    message: str
    model: str | None
    device: str | None
    running: int
    waiting: int
