-- The queue in Redis. One script, run whole or not at all; ARGV[1] names what to do, KEYS[1] is the prefix of all keys:
--
--   job:<job>          hash    queue, campaign, priority, fence, state (waiting, delayed, taken), entry, due as offered
--   stream:<lane>      stream  jobs of one lane; its consumer group remembers who took what, and when
--   depth              hash    lane -> jobs waiting in it; a lane is a queue, a priority and a campaign
--   turns:<queue>      zset    lanes with jobs waiting, by whose turn it is
--   campaign:<name>    hash    known: its jobs here, served: how many were taken, since: when it came
--   later              zset    delayed jobs, by the moment they are due
--   bell:<queue>       list    one token while jobs wait; taking it wakes one sleeping agent, which rings for the next
--
-- Every key goes when it is empty. Moments are those of Redis: clients send spans, because clocks differ.

local P = KEYS[1]
local GROUP = 'agents'
-- A score is made of the priority and, below it, how often the campaign was served; exact while under 2^53.
local PRIORITY_STEP = 4294967296
local PROMOTED_AT_ONCE = 500

local call = redis.call
local time = call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local arrivals, entries = 0, 0
local touched = {}

local function lane_of(r)
  return #r.queue .. ':' .. r.queue .. ':' .. r.priority .. ':' .. r.campaign
end

local function queue_of(lane)
  local length, start = lane:match('^(%d+):()')
  return lane:sub(start, start + tonumber(length) - 1)
end

local function read(job)
  local v = call('HMGET', P .. 'job:' .. job, 'state', 'queue', 'campaign', 'priority', 'fence', 'entry', 'due')
  if not v[1] then return nil end
  return {state = v[1], queue = v[2], campaign = v[3], priority = v[4], fence = tonumber(v[5]), entry = v[6], due = v[7]}
end

-- Lanes

local function turn_of(r, since)
  return since .. ':' .. r.priority .. ':' .. r.campaign
end

-- Microseconds name an entry, so that none is named twice even if its stream went and came again in between.
local function append(stream, job)
  entries = entries + 1
  local entry = redis.pcall('XADD', stream, string.format('%s%06d-%d', time[1], time[2], entries), 'job', job)
  return entry.err and call('XADD', stream, '*', 'job', job) or entry -- a clock that was set back
end

local function enter(job, r)
  local lane = lane_of(r)
  local stream = P .. 'stream:' .. lane
  if call('HINCRBY', P .. 'depth', lane, 1) == 1 then
    redis.pcall('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM') -- it may be there, with jobs that were taken
    local c = call('HMGET', P .. 'campaign:' .. r.campaign, 'since', 'served')
    local score = tonumber(c[2] or 0) - tonumber(r.priority) * PRIORITY_STEP
    call('ZADD', P .. 'turns:' .. r.queue, score, turn_of(r, c[1]))
  end
  local entry = append(stream, job)
  call('HSET', P .. 'job:' .. job, 'state', 'waiting', 'entry', entry)
  touched[r.queue] = true
end

local function end_turn(r)
  local since = call('HGET', P .. 'campaign:' .. r.campaign, 'since')
  call('ZREM', P .. 'turns:' .. r.queue, turn_of(r, since))
  touched[r.queue] = true
end

local function remove_if_empty(lane)
  if call('XLEN', P .. 'stream:' .. lane) == 0 then
    call('DEL', P .. 'stream:' .. lane)
    call('HDEL', P .. 'depth', lane)
  end
end

local function leave(job, r)
  if r.state == 'delayed' then
    call('ZREM', P .. 'later', job)
    return
  end
  local lane = lane_of(r)
  if r.state == 'taken' then
    call('XACK', P .. 'stream:' .. lane, GROUP, r.entry)
  elseif call('HINCRBY', P .. 'depth', lane, -1) <= 0 then
    end_turn(r)
  end
  call('XDEL', P .. 'stream:' .. lane, r.entry)
  remove_if_empty(lane)
end

local function place(job, r, delay)
  if delay > 0 then
    call('ZADD', P .. 'later', now + delay, job)
    call('HSET', P .. 'job:' .. job, 'state', 'delayed')
  else
    enter(job, r)
  end
end

-- Campaigns

local function admit(campaign)
  local key = P .. 'campaign:' .. campaign
  if call('HINCRBY', key, 'known', 1) == 1 then
    arrivals = arrivals + 1
    call('HSET', key, 'since', string.format('%s%06d%06d', time[1], time[2], arrivals))
  end
end

local function dismiss(campaign, count)
  local key = P .. 'campaign:' .. campaign
  if call('HINCRBY', key, 'known', -count) <= 0 then call('DEL', key) end
end

-- Bells and delays

local function ring(queue, waiting)
  if not waiting then
    call('DEL', P .. 'bell:' .. queue)
  elseif call('EXISTS', P .. 'bell:' .. queue) == 0 then
    call('RPUSH', P .. 'bell:' .. queue, '1')
  end
end

local function ring_touched()
  for queue in pairs(touched) do ring(queue, call('EXISTS', P .. 'turns:' .. queue) == 1) end
end

-- Queue what has become due; return the seconds until the next will be, or nothing.
local function promote()
  for _ = 1, PROMOTED_AT_ONCE do
    local first = call('ZRANGE', P .. 'later', 0, 0, 'WITHSCORES')
    if not first[1] then return nil end
    local wait = tonumber(first[2]) - now
    if wait > 0 then return wait end
    call('ZREM', P .. 'later', first[1])
    local r = read(first[1])
    if r then enter(first[1], r) end
  end
  return 0
end

-- What clients ask for

local ops = {}

local function offer(job, new, delay)
  local old = read(job)
  if old then
    new.fence = math.max(new.fence, old.fence)
    -- A number that the store knows was claimed: the delivery is over, whether it was acknowledged or not.
    local over = old.state == 'taken' and new.fence == new.stored
    local same = old.queue == new.queue and old.campaign == new.campaign and old.priority == new.priority
    if (same and old.due == new.due or old.state == 'taken') and not over then
      if new.fence > old.fence then call('HSET', P .. 'job:' .. job, 'fence', new.fence) end
      return 0
    end
  end
  admit(new.campaign)
  if old then
    leave(job, old)
    dismiss(old.campaign, 1)
  end
  call('HSET', P .. 'job:' .. job, 'queue', new.queue, 'campaign', new.campaign, 'priority', new.priority,
    'fence', new.fence, 'due', new.due)
  place(job, new, delay)
  return 1
end

function ops.offer()
  local count = 0
  for i = 2, #ARGV, 7 do
    local fence = tonumber(ARGV[i + 4])
    local new = {queue = ARGV[i + 1], campaign = ARGV[i + 2], priority = ARGV[i + 3], fence = fence, stored = fence,
      due = ARGV[i + 5]}
    count = count + offer(ARGV[i], new, tonumber(ARGV[i + 6]))
  end
  ring_touched()
  return count
end

-- The first two lanes of a queue, by whose turn it is.
local function top_of(queue)
  local v = call('ZRANGE', P .. 'turns:' .. queue, 0, 1, 'WITHSCORES')
  if not v[1] then return nil end
  local top = {queue = queue, turn = v[1], score = tonumber(v[2])}
  if v[3] then top.second = {turn = v[3], score = tonumber(v[4])} end
  return top
end

local function before(a, b)
  return a.score < b.score or (a.score == b.score and a.turn < b.turn)
end

-- The lane whose turn it is, and how many of its jobs come before those of any other lane.
local function choose(queues, tops)
  local best, rival
  for _, queue in ipairs(queues) do
    local top = tops[queue]
    if top then
      if not best or before(top, best) then best, rival = top, best
      elseif not rival or before(top, rival) then rival = top end
    end
  end
  if not best then return nil end
  if best.second and (not rival or before(best.second, rival)) then rival = best.second end
  if not rival then return best, math.huge end
  return best, math.max(1, rival.score - best.score + (best.turn < rival.turn and 1 or 0))
end

local function hand_out(agent, lane, count, answer)
  local stream = P .. 'stream:' .. lane
  local got = redis.pcall('XREADGROUP', 'GROUP', GROUP, agent, 'COUNT', count, 'STREAMS', stream, '>')
  if not got or got.err then return 0 end
  for _, entry in ipairs(got[1][2]) do
    local job = entry[2][2]
    local key = P .. 'job:' .. job
    local fence = call('HGET', key, 'fence')
    if fence then
      fence = string.format('%d', fence + 1)
      call('HSET', key, 'fence', fence, 'state', 'taken')
      answer[#answer + 1] = job
      answer[#answer + 1] = fence
      answer[#answer + 1] = entry[1]
    else
      call('XACK', stream, GROUP, entry[1])
      call('XDEL', stream, entry[1])
    end
  end
  return #got[1][2]
end

local function serve(agent, best, count, served, answer)
  local priority, campaign = best.turn:match('^%d+:(-?%d+):(.*)$')
  local lane = lane_of({queue = best.queue, priority = priority, campaign = campaign})
  local got = hand_out(agent, lane, count, answer)
  if got == 0 then -- someone removed keys behind our back
    call('ZREM', P .. 'turns:' .. best.queue, best.turn)
    call('HSET', P .. 'depth', lane, 0)
    remove_if_empty(lane)
    return
  end
  served[campaign] = call('HINCRBY', P .. 'campaign:' .. campaign, 'served', got)
  if call('HINCRBY', P .. 'depth', lane, -got) > 0 then
    call('ZADD', P .. 'turns:' .. best.queue, served[campaign] - tonumber(priority) * PRIORITY_STEP, best.turn)
  else
    call('ZREM', P .. 'turns:' .. best.queue, best.turn)
  end
end

-- A campaign may have been served through another queue: its score here is then too low. Set it right; true if it was.
local function was_right(best, served)
  local priority, campaign = best.turn:match('^%d+:(-?%d+):(.*)$')
  served[campaign] = served[campaign] or tonumber(call('HGET', P .. 'campaign:' .. campaign, 'served') or 0)
  local score = served[campaign] - tonumber(priority) * PRIORITY_STEP
  if score == best.score then return true end
  call('ZADD', P .. 'turns:' .. best.queue, score, best.turn)
  return false
end

function ops.take()
  local agent, left = ARGV[2], tonumber(ARGV[3])
  local next_due = promote()
  local queues, tops, served, answer = {}, {}, {}, {next_due and string.format('%.3f', next_due) or ''}
  for i = 4, #ARGV do
    queues[#queues + 1] = ARGV[i]
    tops[ARGV[i]] = top_of(ARGV[i])
    touched[ARGV[i]] = nil
  end
  while left > 0 do
    local best, count = choose(queues, tops)
    if not best then break end
    if was_right(best, served) then
      local had = #answer
      serve(agent, best, math.min(count, left), served, answer)
      left = left - (#answer - had) / 3
    end
    tops[best.queue] = top_of(best.queue)
  end
  for _, queue in ipairs(queues) do ring(queue, tops[queue] ~= nil) end
  ring_touched()
  return answer
end

-- A delivery counts while it is the newest one of its job.
local function newest(job, fence, entry)
  local r = read(job)
  if r and r.state == 'taken' and r.fence == tonumber(fence) and r.entry == entry then return r end
end

function ops.ack()
  local accepted, lanes, campaigns = {}, {}, {}
  for i = 2, #ARGV, 3 do
    local r = newest(ARGV[i], ARGV[i + 1], ARGV[i + 2])
    if r then
      local lane = lane_of(r)
      call('XACK', P .. 'stream:' .. lane, GROUP, r.entry)
      call('XDEL', P .. 'stream:' .. lane, r.entry)
      call('DEL', P .. 'job:' .. ARGV[i])
      lanes[lane] = true
      campaigns[r.campaign] = (campaigns[r.campaign] or 0) + 1
      accepted[#accepted + 1] = (i - 2) / 3
    end
  end
  for lane in pairs(lanes) do remove_if_empty(lane) end
  for campaign, count in pairs(campaigns) do dismiss(campaign, count) end
  return accepted
end

function ops.put_back()
  local r = newest(ARGV[2], ARGV[3], ARGV[4])
  if not r then return 0 end
  leave(ARGV[2], r)
  place(ARGV[2], r, tonumber(ARGV[5]))
  ring_touched()
  return 1
end

function ops.withdraw()
  local gone = {}
  for i = 2, #ARGV do
    local r = read(ARGV[i])
    if r then
      leave(ARGV[i], r)
      call('DEL', P .. 'job:' .. ARGV[i])
      dismiss(r.campaign, 1)
      gone[#gone + 1] = ARGV[i]
    end
  end
  ring_touched()
  return gone
end

function ops.reclaim()
  local back, limit = {}, tonumber(ARGV[3])
  for i = 4, #ARGV do
    if #back >= limit then break end
    local stream = P .. 'stream:' .. ARGV[i]
    local pending = redis.pcall('XPENDING', stream, GROUP, 'IDLE', ARGV[2], '-', '+', limit - #back)
    for _, entry in ipairs(pending.err and {} or pending) do
      local found = call('XRANGE', stream, entry[1], entry[1])[1]
      local job = found and found[2][2]
      local r = job and read(job)
      if r and r.entry == entry[1] then
        leave(job, r)
        enter(job, r)
        back[#back + 1] = job
      else
        call('XACK', stream, GROUP, entry[1])
        call('XDEL', stream, entry[1])
        remove_if_empty(ARGV[i])
      end
    end
  end
  promote()
  ring_touched()
  return back
end

function ops.sizes()
  promote()
  ring_touched()
  local sums, answer = {}, {}
  local depths = call('HGETALL', P .. 'depth')
  for i = 1, #depths, 2 do
    local queue = queue_of(depths[i])
    sums[queue] = (sums[queue] or 0) + tonumber(depths[i + 1])
  end
  for queue, sum in pairs(sums) do
    if sum > 0 then
      answer[#answer + 1] = queue
      answer[#answer + 1] = sum
    end
  end
  return answer
end

return ops[ARGV[1]]()
