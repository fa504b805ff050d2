-- Deletes a task if it satisfies a condition. Returns 1 if it was deleted, otherwise 0.
-- ARGV: id, queue, condition. The condition is 'any', 'idle' (delete the task only if it is not running) or 'unwanted' (delete it only if
-- it is not running and its batch is cancelled or does not exist).
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
  redis.call('LREM', 'ingot:{' .. ARGV[2] .. '}:waiting:' .. batch, 1, row) -- searches from the end to which rows are added
elseif state == 'pending' then
  redis.call('LREM', asynq .. 'pending', 0, ARGV[1])
elseif state == 'active' then
  redis.call('LREM', asynq .. 'active', 0, ARGV[1])
  redis.call('ZREM', asynq .. 'lease', ARGV[1])
else
  redis.call('ZREM', asynq .. state, ARGV[1])
end
return 1
