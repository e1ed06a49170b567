"""Deploys denoisers on a Ray cluster with Ray Serve (extra `cluster`): one per GPU, or per share of the CPUs.

Serve starts and restarts the replicas and routes: its consistent-hash router keeps a session at one replica while that
lives and has room. HTTP stays where the command runs, so the death of a replica costs no connection. This module knows
nothing about requests.
"""

# Ray is an extra: where it is not installed nothing is known of its types.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownLambdaType=false

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.config import RequestRouterConfig
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from mercury_lsp.api.cluster import Cluster, Denoiser, Denoisers, Stream
from mercury_lsp.errors import FailureError, UsageError
from mercury_model.draft import Infiller, Request

ONGOING = 4
"""Times n_running: requests a replica holds before the next one of its ring is asked."""


class Router(ConsistentHashRouter):
    """Waits for a replica that is slow to say how much it has to do.

    One in the middle of a pass is; with Serve's 0.1 s its documents would lose their cache to the next replica.
    """

    queue_len_response_deadline_s = 5
    max_queue_len_response_deadline_s = 5


Load = Callable[[Callable[[str, float], None]], Infiller]


@dataclass(frozen=True, slots=True)
class Share:
    """What one replica gets."""

    n_cpus: int
    n_gpus: int


def share_of(nodes: list[dict[str, float]], free: dict[str, float], n_replicas: int) -> Share:
    """One GPU and one CPU each where there are GPUs; else as many CPUs as leave room for all.

    nodes: what each has, {"CPU": n, "GPU": n}; free: what of that nobody uses. Raises UsageError where the replicas do
    not fit: Serve would wait for ever.
    """
    kind = "GPU" if sum(node.get("GPU", 0) for node in nodes) >= 1 else "CPU"
    has = [int(node.get(kind, 0)) for node in nodes]
    n_free = int(free.get(kind, 0))
    if n_replicas > n_free:
        raise UsageError(
            f"the cluster has {sum(has)} {kind}s and {n_free} of them free: --replicas takes at most as many, "
            f"not {n_replicas}"
        )
    if kind == "GPU":
        return Share(1, 1)
    each = next(each for each in range(n_free // n_replicas, 0, -1) if sum(n // each for n in has) >= n_replicas)
    return Share(each, 0)


def connect(address: str | None) -> str:
    """Joins the cluster, or starts one on this machine where there is no address; says in words which.

    Raises FailureError where nothing answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves the machine that nobody asked for
    options: dict[str, Any] = {"configure_logging": False, "log_to_driver": False, "namespace": "serve"}
    try:
        if address is None:
            ray.init("local", include_dashboard=False, **options)
            return "a Ray of its own on this machine (no --address given)"
        ray.init(address, **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise FailureError(f"cannot reach {where}: {reason}") from None
    return f"the Ray cluster at {address}"


def deploy(load: Load, *, n_replicas: int, n_running: int, n_waiting: int, name: str) -> Cluster:
    """Replicas of `load`'s model under the application name `name`, ready to answer; closing the Cluster removes them.

    A deployment of this name that is already there is replaced. Raises UsageError, FailureError.
    """
    serve.start(proxy_location="Disabled")
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    free = ray.available_resources()
    if name in serve.status().applications:  # of a command that was killed
        serve.delete(name)
        free = ray.cluster_resources()  # what it had is counted as free a little later
    share = share_of([node["Resources"] for node in ray.nodes() if node["Alive"]], free, n_replicas)
    replicas = serve.deployment(
        Replica,
        name="denoiser",
        num_replicas=n_replicas,
        max_ongoing_requests=ONGOING * n_running,
        max_queued_requests=n_waiting,
        ray_actor_options={"num_cpus": share.n_cpus, "num_gpus": share.n_gpus},
        request_router_config=RequestRouterConfig(request_router_class=Router),
        health_check_period_s=5,
        graceful_shutdown_timeout_s=5,
    )
    try:
        handle: Any = serve.run(replicas.bind(load, n_running), name=name, route_prefix=None)
        info = handle.about.remote().result()
    except (RuntimeError, RayServeException, RayActorError) as error:
        reason = last_line(replica_trouble(name)) or last_line(str(error))
        serve.delete(name)
        raise FailureError(f"the denoisers did not start: {reason}") from None

    def drafts(request: Request, session: str) -> Stream:
        return handle.options(stream=True, session_id=session).drafts.remote(request)

    async def count(text: str) -> int:
        return await handle.count_tokens.remote(text)

    denoisers = Denoisers(drafts, count, died=(RayActorError,), full=(BackPressureError,))
    return Cluster(denoisers, info, lambda: serve.delete(name))


class Replica(Denoiser):
    """What Serve makes the actors of."""

    def __init__(self, load: Load, n_running: int) -> None:
        context = serve.get_replica_context()
        super().__init__(load, n_running=n_running, name=f"{context.replica_id.unique_id}@{socket.gethostname()}")

    async def about(self) -> Any:
        return self.info


def replica_trouble(name: str) -> str:
    """What Serve knows about why the replicas of an application do not start: it ends with the replica's own error."""
    application = serve.status().applications.get(name)
    return "\n".join(d.message for d in application.deployments.values()) if application is not None else ""


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def leave() -> None:
    """Leaves the cluster; one that `connect` started ends."""
    ray.shutdown()
