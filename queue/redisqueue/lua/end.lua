-- Ends the delivery of a running task, unless another worker has the task by now. The task goes to
-- a place: 'done' (it is deleted), 'head' or 'tail' of its queue, 'retry' or 'archived' (asynq's
-- sets). A row whose batch is cancelled or does not exist is deleted. lib/delivery.lua precedes
-- this script. Values: queue, id, delivery, place, uncount (1 if the attempt does not count),
-- failed (1 if the failure counts), message and at (for 'retry' and 'archived': its new message,
-- and the time in s at which it is to be delivered again or was archived), today, expire (Unix time
-- in s at which today's counts expire), context (for 'retry': tokens of the context that is too
-- short for the row, which workers with a longer context may take at once; 0 if none may). Returns
-- reply.ok or reply.superseded.
local task = taskKey(arg.queue, arg.id)
local batch, line = rowOf(arg.id)
local keys = batch and keysOf(batch)
if keys and not isCurrent(keys, line, arg.delivery) or redis.call('LREM', asynqKey(arg.queue, 'active'), -1, arg.id) == 0 then
  return reply.superseded
end
if keys and arg.uncount == '1' then
  change(keys.attempts, line, -1)
end
local place = arg.place
if place ~= 'archived' and keys and closed(keys) then
  redis.call('DEL', task)
elseif place == 'done' then
  redis.call('DEL', task)
elseif place == 'head' then
  toHead(arg.queue, arg.id)
elseif place == 'tail' then
  redis.call('HSET', task, 'state', 'pending')
  redis.call('LPUSH', asynqKey(arg.queue, 'pending'), arg.id)
else
  redis.call('HSET', task, 'msg', arg.message, 'state', place)
  redis.call('ZADD', asynqKey(arg.queue, place), arg.at, arg.id)
  if arg.context ~= '0' then
    redis.call('ZADD', longerKey(arg.queue), arg.context, arg.id)
  end
end
if place == 'done' or arg.failed == '1' then
  countTasks(arg.queue, 'processed', 1)
end
if arg.failed == '1' then
  countTasks(arg.queue, 'failed', 1)
end
return reply.ok
