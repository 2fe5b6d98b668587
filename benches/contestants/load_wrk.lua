-- wrk asks for streamed chat answers; it counts them, and looks at nothing inside them.
-- Arguments after `--`: tokens of an answer.

function init(args)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.body = string.format(
    '{"model": "sim", "messages": [{"role": "user", "content": "tell me a story about the sea"}], ' ..
    '"max_tokens": %d, "stream": true}', tonumber(args[1]))
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "errors": %d, "p99_ms": %.3f}\n',
    summary.requests, e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(99) / 1000))
end
