-- Deletes a task. Does nothing if there is none. Returns 1 if it was deleted, else 0.
-- ARGV: id, queue, and which tasks are deleted: 'any', 'idle' for one that is not running, 'unwanted' for one that is not running and
-- whose batch is cancelled or does not exist.
local asynq = 'asynq:{' .. ARGV[2] .. '}:'
local task = asynq .. 't:' .. ARGV[1]
local batch, row = string.match(ARGV[1], '^([^:]*):(.*)$')
local state = redis.call('HGET', task, 'state')
if not state or state == 'active' and ARGV[3] ~= 'any' then
  return 0
end
if ARGV[3] == 'unwanted' then
  local is = redis.call('HMGET', 'ingot:{' .. batch .. '}:meta', 'created_ms', 'cancelled_ms')
  if is[1] and not is[2] then
    return 0
  end
end
redis.call('DEL', task)
if state == 'waiting' then
  redis.call('LREM', 'ingot:{' .. ARGV[2] .. '}:waiting:' .. batch, 1, row) -- from the end to which rows are added
elseif state == 'pending' then
  redis.call('LREM', asynq .. 'pending', 0, ARGV[1])
elseif state == 'active' then
  redis.call('LREM', asynq .. 'active', 0, ARGV[1])
  redis.call('ZREM', asynq .. 'lease', ARGV[1])
else
  redis.call('ZREM', asynq .. state, ARGV[1])
end
return 1
