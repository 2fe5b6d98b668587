"""Demo data: a year of a fleet that never was, played through the same code that keeps real results.

Nothing here is measured. Every benchmark carries the label `demo: simulated`, every machine is called `demo-…`.

demo.yaml      the scenario, a simulated history: machines, benchmarks, and what happens in the course of the year
machines.py    what a machine of the fleet is
scenario.py    how machines and code are at a time of the scenario, and which campaigns there are when
scene.py       what is around one job while its numbers are drawn, and the record of its runs
runs.py        the numbers of one job, by kind of target; llm.py those of language models
player.py      campaigns, jobs and results through the store, as a server handles them
fill.py        a store filled with it; many more campaigns by bulk inserts
keeper.py      agents that send heartbeats and jobs that advance while the demo is served
replay.py      a simulated history (`assay sim history`) through the store
"""
