-- fill moves waiting rows to the end of their queue's pending list, from which asynq takes tasks, if the list is short. Batches take turns.
-- A turn is a number: the batch with the lowest number gives the next row, and its number then grows by 1/weight. A row whose task no
-- longer exists or no longer waits is only removed from its batch's list.
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
