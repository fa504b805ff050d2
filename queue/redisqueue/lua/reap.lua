-- Hands over the running rows whose workers are not alive: in one step, each row returns to the
-- head of its queue, in the order in which the rows were taken, its delivery number grows by 1, so
-- that later writes of the old worker are refused, and a death is counted instead of an attempt if
-- the worker had begun the row. A row without an owner, whose worker died between taking and owning
-- it, returns after a time. A row that is recorded, or whose batch is cancelled or does not exist,
-- is deleted. The script also fills the pending lists: take.lua does not fill a list that it finds
-- empty, for example after its tasks were deleted. lib/fill.lua and lib/delivery.lua precede this
-- script. Values: interval (ms; queues that a worker has inspected within it are left out, 0
-- inspects all), silence (ms until a row without an owner returns). Rows: queue. Returns queue and
-- number of returned rows of each inspected queue.
local returned = {}

-- revoke ends the delivery of a row. It returns true if nobody wants the row any more.
local function revoke(id, died)
  local batch, line = rowOf(id)
  if not batch then
    return false
  end
  local keys = keysOf(batch)
  if closed(keys) or redis.call('GETBIT', keys.done, line) == 1 then
    return true
  end
  change(keys.deliveries, line, 1)
  if died then
    change(keys.deaths, line, 1)
    change(keys.attempts, line, -1)
  end
  return false
end

local function handOver(queue, id, task, died)
  redis.call('LREM', asynqKey(queue, 'active'), 0, id)
  local ok, unwanted = pcall(revoke, id, died) -- it fails if keys of the batch are damaged
  if ok and unwanted then
    redis.call('DEL', task)
  else
    toHead(queue, id)
  end
end

for _, row in ipairs(rows) do
  local queue = row.queue
  local inspected = 'ingot:{' .. queue .. '}:reaper'
  local set_back = redis.call('PTTL', inspected) > tonumber(arg.interval) -- the server's clock was, after the last inspection
  if arg.interval == '0' or redis.call('SET', inspected, 1, not set_back and 'NX' or 'XX', 'PX', arg.interval) then
    fill(queue)
    local n = 0
    for _, id in ipairs(redis.call('LRANGE', asynqKey(queue, 'active'), 0, -1)) do -- the row that was taken last comes first
      local task = taskKey(queue, id)
      local is = redis.call('HMGET', task, 'state', 'owner', 'orphan', 'begun')
      if is[1] and not is[2] and (not is[3] or tonumber(is[3]) > nowMS()) then
        redis.pcall('HSET', task, 'orphan', number(nowMS())) -- fails while Redis has no memory left
      end
      if is[1] and isDead(is[2], is[3], arg.silence) then
        handOver(queue, id, task, is[2] and is[2] == is[4])
        n = n + 1
      end
    end
    returned[#returned + 1] = queue
    returned[#returned + 1] = n
  end
end
return returned
