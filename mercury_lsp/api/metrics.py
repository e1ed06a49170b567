"""Counters for Prometheus: requests, tokens, passes and times per endpoint. No text and no keys."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mercury_lsp.api.answering import Answer
from mercury_lsp.api.runs import Runs

SECONDS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0, 80.0)


class Metrics:
    """One registry per application, so that several may live in one process."""

    def __init__(self, runs: Runs) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "mercury_requests", "Requests answered, by status (499: the client went away).", ["endpoint", "status"],
            registry=self.registry,
        )  # fmt: skip
        self.tokens = Counter("mercury_tokens", "Tokens read and written.", ["kind"], registry=self.registry)
        self.replicas = Counter(
            "mercury_replica_requests", "Requests answered by each replica of a cluster.", ["replica"],
            registry=self.registry,
        )  # fmt: skip
        self.forwards = Counter("mercury_forwards", "Passes of the model, prefill apart.", registry=self.registry)
        self.first = Histogram(
            "mercury_first_text_seconds", "From a request's arrival to its first text.", ["endpoint"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.total = Histogram(
            "mercury_request_seconds", "From a request's arrival to the end of its answer.", ["endpoint"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        running = Gauge("mercury_running", "Requests that get passes.", registry=self.registry)
        running.set_function(lambda: runs.n_running)
        waiting = Gauge("mercury_waiting", "Requests that wait for their turn.", registry=self.registry)
        waiting.set_function(lambda: runs.n_waiting)
        ready = Gauge("mercury_model_ready", "1 while the model is loaded.", registry=self.registry)
        ready.set_function(lambda: runs.state == "ready")

    def failed(self, endpoint: str, status: int) -> None:
        self.requests.labels(endpoint, str(status)).inc()

    def answered(self, endpoint: str, answer: Answer, seconds: float) -> None:
        self.failed(endpoint, 200)
        if answer.ticket.replica:
            self.replicas.labels(answer.ticket.replica).inc()
        usage = answer.usage()
        self.tokens.labels("prompt").inc(usage["prompt_tokens"])
        self.tokens.labels("completion").inc(usage["completion_tokens"])
        self.tokens.labels("cached").inc(usage["cached_input_tokens"])
        self.forwards.inc(usage["forwards"])
        if usage["time_to_first_text_ms"] is not None:
            self.first.labels(endpoint).observe(usage["time_to_first_text_ms"] / 1000)
        self.total.labels(endpoint).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
