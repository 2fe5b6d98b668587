"""The server: an HTTP API over the store, long polls for agents, live updates. It moves documents and keeps records.

app.py       puts the parts together
server.py    the process: address, TLS, first tokens, graceful end
settings.py  flags, environment, file
state.py     what every request can reach: store, dispatcher, feed, metrics
submission.py  a benchmark becomes a campaign
delivery.py  a result document of an agent becomes a result in the store
live/        agents that wait for a job, listeners of events, what has to happen as time goes by
web/         errors, access, limits, records of answers, documentation page
routes/      one file per noun
"""
