"""Demo data: a year of a fleet that never was, played through the same code that keeps real results.

Nothing here is measured. Every benchmark carries the label `demo: simulated`, every machine is called `demo-…`.

machines.py    the machines of the fleet
studies.py     the benchmarks, and where they run
changes.py     what happens in the course of the year
calendar.py    which campaigns there are, and when
scene.py       what is around one job while its numbers are drawn
runs/          the numbers of one job, by kind of target
playing.py     campaigns, jobs and results through the store
bulk.py        many more of them, by bulk inserts
alive.py       agents that beat and jobs that go on while somebody looks
"""
