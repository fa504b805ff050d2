-- Deletes a task that is not running. Does nothing if there is none.
-- ARGV: id, queue.
local asynq = 'asynq:{' .. ARGV[2] .. '}:'
local state = redis.call('HGET', asynq .. 't:' .. ARGV[1], 'state')
if not state or state == 'active' then
  return 0
end
redis.call('DEL', asynq .. 't:' .. ARGV[1])
if state == 'waiting' then
  local batch, row = string.match(ARGV[1], '^([^:]*):(.*)$')
  redis.call('LREM', 'ingot:{' .. ARGV[2] .. '}:waiting:' .. batch, 1, row) -- from the end to which rows are added
elseif state == 'pending' then
  redis.call('LREM', asynq .. state, 0, ARGV[1])
else
  redis.call('ZREM', asynq .. state, ARGV[1])
end
return 1
