"""Chat: a conversation becomes the messages of a Request; tools and JSON answers are rules on its text.

This module knows nothing about HTTP, streaming or who runs when.
"""

from collections.abc import Sequence

from mercury_lsp.api import failures, json_mode, tools
from mercury_lsp.api.answering import Question, Reply, Stopping
from mercury_lsp.api.sampling import sampled
from mercury_lsp.api.shapes import ChatRequest, Message, NamedTool, Tool
from mercury_model.draft import Request

SYSTEM = "You are a helpful assistant."
DEFAULT_TOKENS = 8192
"""Most tokens of an answer that names no limit; the context may leave less room."""


def question(body: ChatRequest, n_context: int) -> Question:
    """n_context: tokens that prompt and answer may have together. Raises ApiError."""
    chosen = sampled(body, "chat")
    offered = [] if body.tool_choice == "none" else body.tools or []
    names = _required(body, offered)
    rules = _rules(body)
    if offered and rules is not None:
        raise failures.invalid("tools and a JSON response_format cannot be combined: send one", "response_format")
    lead = tools.forced(names) if names else rules.lead if rules is not None else ""
    messages = list(turns(body.messages, offered, rules.prompt if rules is not None else ""))
    if lead:
        if messages[-1][0] == "assistant":
            raise failures.invalid("the last message must be the user's where the answer has a form", "messages")
        messages.append(("assistant", lead))
    known = frozenset(tool.function.name for tool in offered)

    def reply(text: str, was_cut: bool) -> Reply:
        if rules is not None and not was_cut and (problem := rules.problem(text)) is not None:
            message = f"the model's answer is no use: {problem}; ask again with a higher reasoning_effort"
            raise failures.invalid(message, "response_format", "json_validate_failed")
        return tools.read(text, known) if known else Reply(text)

    others = (rules.end,) if rules is not None else ()
    request = Request(
        prefix="",
        suffix="",
        messages=tuple(messages),
        max_tokens=body.max_completion_tokens or body.max_tokens or min(DEFAULT_TOKENS, n_context),
        policy=chosen.policy,
        effort=chosen.effort,
        temperature=chosen.temperature,
        top_p=chosen.top_p,
        top_k=chosen.top_k,
        seed=chosen.seed,
        end=Stopping(chosen.stop, others) if chosen.stop or others else None,
        judge=rules.judge if rules is not None else None,
    )
    return Question(
        kind="chat",
        model=body.model,
        request=request,
        shown="\n".join(f"{role}\n{text}" for role, text in messages),
        param="messages",
        lead=lead,
        stop=chosen.stop,
        whole=rules is not None,
        sendable=tools.sendable if known else len,
        reply=reply,
        warning=chosen.warning or _pattern_warning(body),
        stream=bool(body.stream),
        diffusing=bool(body.diffusing and body.stream),
        canvas=bool(body.canvas),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
        summary=bool(body.reasoning_summary),
    )


def turns(messages: Sequence[Message], offered: Sequence[Tool], form: str) -> list[tuple[str, str]]:
    """(role, text) as the model was trained to see them: one system message first, answers of tools as the user's."""
    system = "\n".join(text_of(m) for m in messages if m.role in ("system", "developer")) or SYSTEM
    if offered:
        system += tools.described(offered)
    if form:
        system += f"\n\n{form}"
    out: list[tuple[str, str]] = [("system", system)]
    was_tool = False
    for message in messages:
        if message.role in ("system", "developer"):
            continue
        text = text_of(message)
        if message.role == "tool":
            text = tools.answered(text)
            if was_tool:
                out[-1] = ("user", f"{out[-1][1]}\n{text}")
            else:
                out.append(("user", text))
        elif message.role == "assistant":
            calls = [tools.called(call.function.name, call.function.arguments) for call in message.tool_calls or []]
            out.append(("assistant", "\n".join([text, *calls] if text else calls)))
        else:
            out.append(("user", text))
        was_tool = message.role == "tool"
    if len(out) == 1:
        out.append(("user", ""))
    return out


def text_of(message: Message) -> str:
    """Raises ApiError for a part that is not text."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    if any(part.type != "text" or part.text is None for part in message.content):
        raise failures.invalid("this model reads text only: leave other parts out", "messages")
    return "\n".join(part.text or "" for part in message.content)


def _required(body: ChatRequest, offered: Sequence[Tool]) -> list[str]:
    """Names of the tools of which one must be called; none if the model may choose."""
    choice = body.tool_choice
    names = [tool.function.name for tool in offered]
    if isinstance(choice, NamedTool):
        if choice.function.name not in names:
            raise failures.invalid(f"tool_choice names {choice.function.name[:80]!r}, no tool does", "tool_choice")
        return [choice.function.name]
    if choice == "required":
        if not names:
            raise failures.invalid("tool_choice is required, and there are no tools", "tool_choice")
        return names
    return []


def _rules(body: ChatRequest) -> json_mode.JsonRules | None:
    form = body.response_format
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return json_mode.rules_of(None)
    if form.json_schema is None or form.json_schema.schema_ is None:
        raise failures.invalid("response_format json_schema needs json_schema.schema", "response_format")
    return json_mode.rules_of(form.json_schema.schema_)


def _pattern_warning(body: ChatRequest) -> str | None:
    form = body.response_format
    if form is not None and form.json_schema is not None and json_mode.has_patterns(form.json_schema.schema_):
        return "pattern and patternProperties of the schema are not enforced"
    return None
