-- Returns a running task to the head of its queue, as if it had not been taken. Returns 1, or 0 if it is not running.
-- ARGV: id, queue.
local asynq = 'asynq:{' .. ARGV[2] .. '}:'
if redis.call('LREM', asynq .. 'active', -1, ARGV[1]) == 0 then
  return 0
end
redis.call('ZREM', asynq .. 'lease', ARGV[1])
redis.call('RPUSH', asynq .. 'pending', ARGV[1])
redis.call('HSET', asynq .. 't:' .. ARGV[1], 'state', 'pending')
return 1
