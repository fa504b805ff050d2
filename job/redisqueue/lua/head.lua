-- Moves a task that is pending or waits for a retry to the head of its queue. Does nothing if the task is in another state.
-- KEYS: the queue's retry set and pending list, the task. ARGV: id of the task.
if redis.call('ZREM', KEYS[1], ARGV[1]) + redis.call('LREM', KEYS[2], 1, ARGV[1]) == 0 then
  return 0
end
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[3], 'state', 'pending')
return 1
