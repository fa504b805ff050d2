-- Moves the tasks whose retry or start is due to the ends of their queues, as asynq's server does.
-- Values: max (number of tasks per set). Rows: queue. Returns the number of moved tasks.
local moved, now = 0, nowMS()
for _, row in ipairs(rows) do
  for _, name in ipairs({'retry', 'scheduled'}) do
    local set = asynqKey(row.queue, name)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', math.floor(now / 1000), 'LIMIT', 0, arg.max)) do
      local task = taskKey(row.queue, id)
      redis.call('ZREM', set, id)
      if redis.call('EXISTS', task) == 1 then
        redis.call('LPUSH', asynqKey(row.queue, 'pending'), id)
        redis.call('HSET', task, 'state', 'pending', 'pending_since', number(now * 1000000))
        moved = moved + 1
      end
    end
  end
end
return moved
