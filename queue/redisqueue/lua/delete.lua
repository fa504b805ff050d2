-- Deletes a task that is not running. Values: queue, id. Returns 1 if it was deleted, otherwise 0.
local task = taskKey(arg.queue, arg.id)
local state = redis.call('HGET', task, 'state')
if not state or state == 'active' then
  return 0
end
redis.call('DEL', task)
if state == 'waiting' then
  local batch, line = string.match(arg.id, '^([^:]*):(.*)$')
  redis.call('LREM', waitingKey(arg.queue, batch), 1, line) -- searches from the end to which rows are added
elseif state == 'pending' then
  redis.call('LREM', asynqKey(arg.queue, 'pending'), 0, arg.id)
else
  redis.call('ZREM', asynqKey(arg.queue, state), arg.id)
end
return 1
