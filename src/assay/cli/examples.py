"""An example or two of every verb, which `--help` prints."""

from __future__ import annotations

_SERVER = "--server http://127.0.0.1:8080"

_LINES = f"""
assay run bench.yaml
assay run bench.yaml --set measure.runs=10 --out results
assay run squeezenet --batch 1,8 --threads 1,2
assay run http://127.0.0.1:8000/v1 --rate 5 --input-tokens 512 --output-tokens 128 -n 300
assay run --runs 3 --save bench.yaml -- python train.py
assay init squeezenet
assay init http://127.0.0.1:8000/v1 --out chat.yaml
assay plan bench.yaml
assay plan squeezenet --batch 1,8
assay validate bench.yaml chat.yaml
assay ab bench.yaml --a target.threads=1 --b target.threads=2
assay ab before.yaml after.yaml --at-most 10m --fail-on-worse
assay noise
assay noise bench.yaml --runs 20
assay device bench --device cpu
assay device list
assay device locks

assay results list
assay results show latest
assay results show latest --job 0
assay results export latest --out results
assay results rm c1a7a9b96
assay report latest
assay report --since 7d --out week.html
assay compare latest~1 latest
assay compare before.json after.json --fail-on-worse
assay series list --benchmark chat
assay series show s1f2e3d4c5
assay series import points.csv
assay series check points.csv
assay series findings --state open
assay series expect f1a2b3c4
assay series collect
assay explain f1a2b3c4
assay logs latest
assay logs c1a7a9b96-job-0 --service llm --follow
assay monitoring show latest
assay monitoring files grafana --url http://localhost:9090
assay monitoring tunnel me@login.example.org node17

assay gate latest --baseline main.json --worse-than 5%
assay bisect bench.yaml --good v1.0 --bad HEAD --build "make"
assay bisect bench.yaml --path target.threads --values 1,2,4,8
assay alerts list
assay alerts show a1b2c3
assay alerts ack a1b2c3 --why "looking into the driver"
assay alerts snooze a1b2c3 --for 4h
assay alerts expect a1b2c3 --why "new model"
assay alerts resolve a1b2c3
assay alerts reopen a1b2c3
assay alerts notices
assay alerts resend 17
assay alerts test-channel team --channels channels.yaml
assay alerts rules set slow "ttft_ms.p99 > 50" --benchmark "chat-*"
assay alerts rules rm slow
assay schedules add nightly.yaml {_SERVER}
assay schedules list
assay schedules show nightly
assay schedules pause nightly
assay schedules resume nightly
assay schedules rm nightly
assay schedules run nightly
assay schedules next nightly.yaml --count 3

assay info
assay info --format json
assay doctor
assay doctor --device cuda:0
assay models
assay recipes list
assay recipes show vllm
assay recipes copy vllm --out llm.yaml

assay serve
assay serve --port 8081 --store results
assay agent info
assay agent validate
assay agent test {_SERVER}
assay agent enroll {_SERVER} --label site=lab
assay agent start {_SERVER} --device cuda:0
assay agent serve --listen 0.0.0.0:8081
assay agent install-service {_SERVER} --user
assay agents list {_SERVER}
assay agents show h200-03
assay agents add http://device:8081
assay agents label h200-03 site=lab
assay agents drain h200-03
assay agents resume h200-03
assay agents reset h200-03
assay agents rm h200-03
assay campaigns list {_SERVER}
assay campaigns show c1a7a9b96
assay campaigns attach c1a7a9b96
assay campaigns placement c1a7a9b96
assay campaigns cancel c1a7a9b96
assay campaigns retry c1a7a9b96
assay campaigns resubmit c1a7a9b96
assay campaigns rm c1a7a9b96
assay jobs list --state running {_SERVER}
assay jobs show c1a7a9b96-job-0
assay jobs cancel c1a7a9b96-job-0
assay jobs retry c1a7a9b96-job-0 c1a7a9b96-job-1
assay tokens create ci --role user --expires-in 30d
assay tokens list
assay tokens revoke t1a2b3c4
assay db upgrade
assay db current
assay objects use s3://bucket/prefix
assay objects status
assay objects send
assay objects verify
assay objects fetch
assay objects forget
assay infra create
assay infra create --provider kubernetes --namespace bench
assay infra status
assay infra destroy --keep-data
assay clusters add site --set partition=gpu --set folder=/project/assay
assay clusters list
assay clusters rm site
assay clusters check site --node
assay kubernetes check cluster.yaml --pod

assay schema
assay import sark.yaml --out bench.yaml
assay prepare bench.yaml
assay prepare bench.yaml --check
assay exec job.json --out result
assay merge latest
assay score latest --scorer exact-match
assay sim llm --port 8000 --ttft 50ms --itl 10ms
assay sim http --port 8000
assay sim history --out history --nights 30
assay demo-data --store demo
assay completion bash
"""


def examples(verb: tuple[str, ...]) -> tuple[str, ...]:
    """The examples of a verb that does something, not of a group of verbs."""
    return tuple(line for line in _LINES.splitlines() if tuple(line.split()[1 : len(verb) + 1]) == verb)
