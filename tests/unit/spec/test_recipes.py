"""Recipes: each is a sound section of services, and a file that names one gets it with its own keys on top."""

from __future__ import annotations

import pytest

from assay.errors import UsageError
from assay.spec.load import load
from assay.spec.recipes import find_recipe, recipe_names

TARGETS = {
    "ollama": {"service": "llm", "api": "ollama", "model": "llama3.1"},
    "vllm": {"service": "llm", "api": "openai-chat", "model": "model", "metrics": "/metrics"},
    "qdrant": {"service": "vectors", "api": "qdrant", "metrics": "/metrics"},
    "chroma": {"service": "vectors", "api": "chroma"},
    "pgvector": {"service": "vectors", "api": "pgvector"},
}


def benchmark(name: str, **more) -> dict:
    data = {"workload": {"task": "knn"}} if TARGETS[name]["service"] == "vectors" else {}
    return {"benchmark": "x", "target": TARGETS[name], **data, **more}


def test_there_is_a_recipe_for_each_of_them():
    assert set(recipe_names()) == set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_a_recipe_is_a_section_of_services(name):
    recipe = find_recipe(name)
    loaded = load(benchmark(name, services=recipe.services))
    (service,) = loaded.benchmark.services.values()
    assert "://" in service.image
    assert ":" in service.image.rpartition("/")[2], "no image without a version"
    words = " ".join([str(service.command), *service.env.values()])
    assert "{port}" in words
    assert "{host}" in words, "other nodes could not reach it"
    assert service.ready.http or service.ready.tcp
    assert recipe.about
    target = next(line for line in recipe.text.splitlines() if line.startswith("# target: "))
    assert f"service: {next(iter(recipe.services))}" in target
    assert f"api: {TARGETS[name]['api']}" in target


def test_a_file_may_name_one_and_change_it():
    own = {"recipe": "vllm", "env": {"HF_HUB_OFFLINE": None, "MINE": "1"}, "needs": {"gpus": 2}, "fresh": None}
    loaded = load(benchmark("vllm", services={"llm": own}))
    service = loaded.benchmark.services["llm"]
    plain = load(benchmark("vllm", services=find_recipe("vllm").services)).benchmark.services["llm"]
    assert service.image == plain.image
    assert service.env == {"VLLM_NO_USAGE_STATS": "1", "MINE": "1"}
    assert (service.needs.gpus, service.needs.memory) == (2, plain.needs.memory)
    assert (service.fresh, plain.fresh) == ("run", "job")
    assert service.recipe is None, "what is measured does not depend on how it was written"


def test_a_recipe_under_another_name_of_a_service():
    target = {**TARGETS["qdrant"], "service": "db"}
    loaded = load(benchmark("qdrant", services={"db": {"recipe": "qdrant"}}) | {"target": target})
    assert "qdrant" in loaded.benchmark.services["db"].image


def test_a_recipe_that_is_not_there_is_reported_with_the_nearest():
    with pytest.raises(UsageError, match="there is no recipe 'vlm'") as caught:
        load(benchmark("vllm", services={"llm": {"recipe": "vlm"}}))
    assert caught.value.problem.try_ == "did you mean vllm?"
    assert caught.value.problem.at == "services.llm.recipe"
