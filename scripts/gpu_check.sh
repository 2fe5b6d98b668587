#!/usr/bin/env bash
# Measure on a GPU of this machine through every path that PyTorch serves: a random language model (generation and
# embedding) and programs, with proof that the GPU did the work. For a machine with an NVIDIA GPU and PyTorch; no
# network and no installation are needed. What is missing is said, and what can be done without it is done.
#
#   scripts/gpu_check.sh [FOLDER]     FOLDER keeps the models and results (a temporary one when left out)
#
#   PYTHON     interpreter that has PyTorch (python3)
#   DEVICE     where to run (cuda); DEVICE=cpu tries the script itself on any machine
#   PACKAGES   folder with further packages, for a machine that cannot install any. Made elsewhere by
#              pip install --target FOLDER --python-version 3.12 --only-binary=:all: pydantic psutil …
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
if ! command -v "$python" >/dev/null 2>&1; then echo "no $python here: set PYTHON"; exit 2; fi
command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
# The packages brought along come last: what the machine has fits its PyTorch.
PYTHONPATH="$root/src:$folder/metadata${PYTHONPATH:+:$PYTHONPATH}" ROOT="$root" FOLDER="$folder" \
  HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1 exec "$python" - <<'PYTHON'
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT, FOLDER, DEVICE = Path(os.environ["ROOT"]), Path(os.environ["FOLDER"]), os.environ.get("DEVICE", "cuda")
PACKAGES = os.environ.get("PACKAGES", "")
if PACKAGES:
    sys.path.append(PACKAGES)
    os.environ["PYTHONPATH"] += os.pathsep + PACKAGES  # for the processes of the runs
CORE = ("numpy", "psutil", "pydantic")
WHOLE = ("alembic", "httpx", "platformdirs", "pyarrow", "rich", "ruamel.yaml", "sqlalchemy", "typer")
MEASURE = {"runs": 2, "warmup": "auto", "until": {"at_least": "1s", "at_most": "4s"}, "timeout": "300s"}
THREADS = {"threads": 1} if DEVICE == "cpu" else {}
SHOWN = ("load_ms", "first_ms", "prefill_ms", "decode_ms", "latency_ms", "ttft_ms", "output_tokens_per_s",
         "input_tokens_per_s", "throughput_per_s", "gpu_mem_mb", "peak_run_rss_mb")


def has(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def missing(names):
    return [name for name in names if not has(name)]


def check_machine():
    if not has("torch"):
        sys.exit("PyTorch is not installed for this interpreter: set PYTHON to one that has it")
    import torch

    print(f"python {sys.version.split()[0]}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    if DEVICE.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here: nothing to check (DEVICE=cpu tries the script itself)")
    if missing(CORE):
        sys.exit(f"assay itself needs {', '.join(missing(CORE))}: install them, or bring them with PACKAGES")


def install():
    """Leave what `pip install` would: the metadata by which targets are found."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    metadata = FOLDER / "metadata" / f"assay_bench-{project['version']}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: assay-bench\nVersion: {project['version']}\n")
    groups = project["entry-points"]
    text = "\n".join(f"[{name}]\n" + "\n".join(f"{k} = {v}" for k, v in one.items()) for name, one in groups.items())
    (metadata / "entry_points.txt").write_text(text + "\n")


def make_language_model():
    """A Llama of 93 million random weights (fewer for a CPU) with a tokenizer trained on this repository's pages."""
    folder = FOLDER / "llama"
    if (folder / "config.json").is_file():
        return
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    pages = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))]
    trainer = trainers.BpeTrainer(vocab_size=4096, special_tokens=["<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(pages, trainer)
    torch.manual_seed(0)
    size = 1024 if DEVICE != "cpu" else 128
    config = LlamaConfig(hidden_size=size, intermediate_size=size * 11 // 4, num_hidden_layers=8, num_attention_heads=16,
                         num_key_value_heads=8, vocab_size=4096, max_position_embeddings=4096, eos_token_id=0,
                         bos_token_id=None, pad_token_id=None)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>").save_pretrained(folder)


def make_programs():
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.ReLU(), torch.nn.Conv2d(64, 128, 3, 2, 1), torch.nn.ReLU(),
              torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(128, 1000)]
    net = torch.nn.Sequential(*layers).eval()
    example = torch.randn(2, 3, 224, 224)
    dims = ({0: torch.export.Dim("batch", min=1, max=256)},)
    torch.export.save(torch.export.export(net, (example,), dynamic_shapes=dims), FOLDER / "net.pt2")
    torch.jit.trace(net, example).save(str(FOLDER / "net.ts"))


def benchmarks():
    text = {"input_tokens": 128, "output_tokens": 64, "items": 16}
    language = {"model": "llama", "runtime": "transformers", "device": DEVICE, "dtype": "bfloat16", **THREADS}
    if not missing(("transformers", "tokenizers", "safetensors", "jinja2")):
        make_language_model()
        yield "generation, batch 1", language, text
        yield "generation, batch 16", language, {**text, "batch": 16}
        yield "embedding, batch 32", {**language, "use": "embed"}, {"batch": 32, "input_tokens": 128, "items": 8}
    else:
        print(f"no language model: {', '.join(missing(('transformers', 'tokenizers', 'safetensors', 'jinja2')))} missing")
    make_programs()
    yield "exported program, batch 32", {"model": "net.pt2", "runtime": "torch", "device": DEVICE, **THREADS}, {"batch": 32}
    shapes = {"batch": 32, "inputs": {"input": {"shape": [-1, 3, 224, 224]}}}
    yield "TorchScript, batch 32", {"model": "net.ts", "runtime": "torch", "device": DEVICE, **THREADS}, shapes


def by_command(document, name):
    """The whole way: `assay run`, store and reports included."""
    path = FOLDER / f"{name.replace(', ', '-').replace(' ', '-')}.json"
    path.write_text(json.dumps(document, indent=2))
    command = [sys.executable, "-m", "assay", "run", path.name, "--quiet", "--fresh", "--format", "json"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, env={**os.environ, "ASSAY_STORE": str(FOLDER / "store")})
    if not done.stdout.startswith("{"):
        return {"state": "failed", "error": done.stdout + done.stderr}
    return json.loads(done.stdout)["jobs"][0]


def by_run(document, name):
    """Without the store: the same processes and the same judgement, nothing kept."""
    from assay.analyse.judge import judge
    from assay.clock import SYSTEM_CLOCK
    from assay.documents import to_json
    from assay.plan.job import Job
    from assay.run.execute import execute_job
    from assay.spec.benchmark import Definition

    class Watch:
        def __getattr__(self, _):
            return lambda *_, **__: None

    definition = Definition.model_validate_json(json.dumps({key: value for key, value in document.items() if key != "benchmark"}))
    job, outcomes = Job(name, "gpu-check", 0, definition, base=str(FOLDER)), []
    execute_job(job, cache=FOLDER / "cache", clock=SYSTEM_CLOCK, watch=Watch(), keep=outcomes.append)
    return json.loads(to_json(judge(job, tuple(outcomes), {}, planned_runs=definition.measure.runs)))


def show(name, job):
    print(f"\n{name}: {job.get('state')}, {job.get('verdict')}")
    for metric in SHOWN:
        found = job.get("metrics", {}).get(metric)
        if found:
            tail = f"  p99 {found['p99']:.4g}" if found.get("p99") else ""
            print(f"  {metric:22} {found['median']:>12.4g} {found['unit']:4}{tail}  ({found['count']} samples)")
    for run in job.get("runs", [])[:1]:
        device, facts = run.get("device") or {}, run.get("facts", {})
        print(f"  device  asked {device.get('requested')}, used {device.get('used')}: {device.get('evidence')}")
        print(f"  facts   {json.dumps({key: facts[key] for key in ('gpu', 'dtype', 'attention', 'kv_cache', 'program') if key in facts})}")
        if run.get("error"):
            print(f"  error   {json.dumps(run['error'])[:1500]}")
    if job.get("error"):
        print(f"  error   {str(job['error'])[-1500:]}")
    for check in job.get("checks", []):
        if check.get("passed") is False:
            print(f"  check   {check['name']}: {check['detail']}")
    ran = [run for run in job.get("runs", []) if not run.get("error")]
    return bool(ran) and all((run.get("device") or {}).get("used") == DEVICE for run in ran)


def main():
    check_machine()
    install()
    os.environ.setdefault("ASSAY_CACHE", str(FOLDER / "cache"))
    way = by_run if missing(WHOLE) else by_command
    if missing(WHOLE):
        print(f"no `assay run` here, for want of {', '.join(missing(WHOLE))}: runs are made and judged, but not stored")
    good = [show(name, way({"benchmark": name, "target": target, "workload": workload, "measure": MEASURE}, name))
            for name, target, workload in benchmarks()]
    wrong = {"model": "net.pt2", "runtime": "torch", "device": "cuda:99"}
    refused = way({"benchmark": "no such GPU", "target": wrong, "measure": {"runs": 1}}, "no such GPU")
    runs = refused.get("runs") or [{}]
    is_refused = (runs[0].get("error") or {}).get("code") == "device"
    print(f"\na GPU that is not there: {'refused' if is_refused else 'NOT refused: ' + json.dumps(refused)[:800]}")
    print(f"\n{sum(good)} of {len(good)} ran on {DEVICE}; models and results are in {FOLDER}")
    return 0 if all(good) and is_refused else 1


sys.exit(main())
PYTHON
