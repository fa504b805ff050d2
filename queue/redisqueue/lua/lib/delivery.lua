-- isCurrent reports whether a delivery has its row: no other worker has taken the row over since.
-- Rows of a batch that does not exist have no numbers, and nobody wants their results.
local function isCurrent(keys, line, delivery)
  return whole(redis.call('HGET', keys.deliveries, line)) == tonumber(delivery) or redis.call('EXISTS', keys.meta) == 0
end

-- isDead reports whether a running task has no live worker. silence is the time in ms after which a
-- task without an owner, whose worker died before it owned the task, has none. An owner without a
-- heartbeat is dead: reapers delete the heartbeats of silent workers. A caller that cannot rely on
-- reapers gives max_age, the age in ms from which a heartbeat does not count.
local function isDead(owner, orphan, silence, max_age)
  local now = nowMS()
  if not owner then
    return now - tonumber(orphan or now) >= tonumber(silence)
  end
  local beat = redis.call('HGET', fleetKey('beats'), owner)
  return not beat or max_age and now - tonumber(beat) >= max_age
end

-- toHead makes a task that is in no list the next one of its queue.
local function toHead(queue, id)
  local task = taskKey(queue, id)
  redis.call('HSET', task, 'state', 'pending', 'pending_since', number(nowMS() * 1000000))
  redis.call('HDEL', task, 'owner', 'orphan', 'begun')
  redis.call('RPUSH', asynqKey(queue, 'pending'), id)
end
