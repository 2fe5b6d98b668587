"""The protocols that served targets speak, by name."""

from __future__ import annotations

from collections.abc import Callable

from assay.errors import MeasureError
from assay.run.targets.served.apis.contract import Api, Call
from assay.run.targets.served.apis.http import PlainHttp
from assay.run.targets.served.apis.ollama import Ollama
from assay.run.targets.served.apis.openai_chat import OpenAiChat
from assay.run.targets.served.apis.openai_completions import OpenAiCompletions
from assay.run.targets.served.apis.openai_embeddings import OpenAiEmbeddings
from assay.run.targets.served.apis.paths import wire_path
from assay.spec.target import EndpointTarget, Served, ServiceTarget

__all__ = ["APIS", "Api", "Call", "find_api", "wire_path"]

APIS: dict[str, Callable[[Served, int], Api]] = {
    "openai-chat": OpenAiChat,
    "openai-completions": OpenAiCompletions,
    "openai-embeddings": OpenAiEmbeddings,
    "ollama": Ollama,
    "http": PlainHttp,
}


def find_api(target: ServiceTarget | EndpointTarget, seed: int) -> Api:
    """The protocol of a target, ready to build its requests and read its answers.

    Raises:
        MeasureError: if the protocol is not known or the target lacks what it needs.
    """
    if target.api not in APIS:
        raise MeasureError(
            f"target.api is {target.api!r}, which is no protocol for prompts",
            code="target",
            at="target.api",
            try_=f"use one of {', '.join(APIS)}",
        )
    return APIS[target.api](target, seed)
