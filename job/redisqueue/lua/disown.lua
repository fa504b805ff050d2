-- Leaves a running task without an owner, if that is the worker.
-- KEYS: task. ARGV: worker's id.
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'owner')
end
return 1
