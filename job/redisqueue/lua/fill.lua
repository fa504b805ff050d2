-- fill moves waiting rows to the end of their queue's pending list, where asynq takes tasks, if the list is short. Batches take turns.
-- The turn of a batch is a number; the batch with the lowest one is next, and its next turn is 1/weight higher. A row whose task is gone,
-- or is in the queue again, is only removed from its batch's list.
local full, low = 128, 64
local function fill(queue)
  local pending, turns = 'asynq:{' .. queue .. '}:pending', 'ingot:{' .. queue .. '}:turns'
  local length = redis.call('LLEN', pending)
  if length >= low then
    return
  end
  while length < full do
    local batch, turn = unpack(redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES'))
    if not batch then
      return
    end
    local row = redis.call('RPOP', 'ingot:{' .. queue .. '}:waiting:' .. batch)
    if row then
      local id = batch .. ':' .. row
      local task = 'asynq:{' .. queue .. '}:t:' .. id
      if redis.call('HGET', task, 'state') == 'waiting' then
        redis.call('HSET', task, 'state', 'pending')
        redis.call('LPUSH', pending, id)
        length = length + 1
        local weight = tonumber(redis.call('HGET', 'ingot:{' .. batch .. '}:meta', 'weight')) or 1
        redis.call('ZADD', turns, turn + 1 / weight, batch)
      end
    else
      redis.call('ZREM', turns, batch)
    end
  end
end
