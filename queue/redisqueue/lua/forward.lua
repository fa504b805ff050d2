-- Moves the tasks whose retry or start is due to the ends of their queues, as asynq's server does,
-- and so the tasks that were passed on to workers with a longer context, if there are no such
-- workers. Values: max (number of tasks per set), longest (context of the live workers). Rows:
-- queue. Returns the number of moved tasks.
local moved, now = 0, nowMS()
for _, row in ipairs(rows) do -- a task that was passed on is due if no live worker has a longer context
  local retry, longer = asynqKey(row.queue, 'retry'), longerKey(row.queue)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', longer, arg.longest, '+inf', 'LIMIT', 0, arg.max)) do
    if redis.call('ZSCORE', retry, id) then
      redis.call('ZADD', retry, 0, id)
    end
    redis.call('ZREM', longer, id)
  end
end
for _, row in ipairs(rows) do
  for _, name in ipairs({'retry', 'scheduled'}) do
    local set = asynqKey(row.queue, name)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', math.floor(now / 1000), 'LIMIT', 0, arg.max)) do
      local task = taskKey(row.queue, id)
      redis.call('ZREM', set, id)
      redis.call('ZREM', longerKey(row.queue), id)
      if redis.call('EXISTS', task) == 1 then
        redis.call('LPUSH', asynqKey(row.queue, 'pending'), id)
        redis.call('HSET', task, 'state', 'pending', 'pending_since', number(now * 1000000))
        moved = moved + 1
      end
    end
  end
end
return moved
