-- Ends the delivery of a running task as asynq does: deletes the task, or schedules it for another delivery, or archives it. Returns 1, or 0 if
-- it is not running.
-- ARGV: id, queue, 'done', 'retry' or 'archived', today, Unix time in s at which today's counts expire, 1 if the task has failed, then,
-- unless it is done, its message, and the time in s at which it was archived or is to be delivered again.
local asynq = 'asynq:{' .. ARGV[2] .. '}:'
local task = asynq .. 't:' .. ARGV[1]
if redis.call('LREM', asynq .. 'active', -1, ARGV[1]) == 0 then
  return 0
end
redis.call('ZREM', asynq .. 'lease', ARGV[1])
if ARGV[3] == 'done' then
  redis.call('DEL', task)
else
  redis.call('HSET', task, 'msg', ARGV[7], 'state', ARGV[3])
  redis.call('ZADD', asynq .. ARGV[3], ARGV[8], ARGV[1])
end
local function count(name)
  redis.call('INCR', asynq .. name)
  if redis.call('INCR', asynq .. name .. ':' .. ARGV[4]) == 1 then
    redis.call('EXPIREAT', asynq .. name .. ':' .. ARGV[4], ARGV[5])
  end
end
if ARGV[3] == 'done' or ARGV[6] == '1' then
  count('processed')
end
if ARGV[6] == '1' then
  count('failed')
end
return 1
