-- isOpen reports whether the batch of a row exists and is not cancelled.
local function isOpen(keys)
  local is = redis.call('HMGET', keys.meta, 'created_ms', 'cancelled_ms')
  return is[1] and not is[2]
end

-- isCurrent reports whether a delivery has its row: no other worker has taken the row over since.
-- Rows of a batch that does not exist have no numbers, and nobody wants their results.
local function isCurrent(keys, line, delivery)
  return tonumber(redis.call('HGET', keys.deliveries, line) or 0) == tonumber(delivery) or redis.call('EXISTS', keys.meta) == 0
end

-- uncount subtracts an attempt at a line.
local function uncount(keys, line)
  local n = tonumber(redis.call('HGET', keys.attempts, line) or 0)
  if n > 1 then
    redis.call('HINCRBY', keys.attempts, line, -1)
  elseif n == 1 then
    redis.call('HDEL', keys.attempts, line)
  end
end

-- toHead makes a task that is in no list the next one of its queue.
local function toHead(queue, id)
  local task = taskKey(queue, id)
  redis.call('HSET', task, 'state', 'pending', 'pending_since', number(nowMS() * 1000000))
  redis.call('HDEL', task, 'owner', 'orphan', 'begun')
  redis.call('RPUSH', asynqKey(queue, 'pending'), id)
end
