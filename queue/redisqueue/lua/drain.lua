-- Removes rows of a batch from a queue with their tasks, except those that live workers run. It
-- works even while Redis has no memory left. lib/delivery.lua precedes this script. Values: queue,
-- batch, max (number of waiting rows to remove in this call), silence (ms after which a row without
-- an owner, or twice that after the last heartbeat of its owner, has no live worker). Returns 1 if
-- the batch may have more waiting rows, otherwise 0.
local waiting = waitingKey(arg.queue, arg.batch)
for _ = 1, tonumber(arg.max) do
  local line = redis.call('RPOP', waiting)
  if not line then
    break
  end
  local task = taskKey(arg.queue, arg.batch .. ':' .. line)
  if redis.call('HGET', task, 'state') == 'waiting' then
    redis.call('DEL', task)
  end
end
if redis.call('EXISTS', waiting) == 1 then
  return 1
end
redis.call('ZREM', turnsKey(arg.queue), arg.batch)

local prefix = arg.batch .. ':'
for _, name in ipairs({'pending', 'active'}) do
  local list = asynqKey(arg.queue, name)
  for _, id in ipairs(redis.call('LRANGE', list, 0, -1)) do
    local task = taskKey(arg.queue, id)
    if string.sub(id, 1, #prefix) == prefix then
      local is = name == 'active' and redis.call('HMGET', task, 'owner', 'orphan')
      if not is or isDead(is[1], is[2], arg.silence, 2 * tonumber(arg.silence)) then
        redis.call('LREM', list, 0, id)
        redis.call('DEL', task)
      end
    end
  end
end
for _, name in ipairs({'scheduled', 'retry', 'archived'}) do
  local set = asynqKey(arg.queue, name)
  for _, id in ipairs(redis.call('ZRANGE', set, 0, -1)) do
    if string.sub(id, 1, #prefix) == prefix then
      redis.call('ZREM', set, id)
      redis.call('ZREM', longerKey(arg.queue), id)
      redis.call('DEL', taskKey(arg.queue, id))
    end
  end
end
return 0
