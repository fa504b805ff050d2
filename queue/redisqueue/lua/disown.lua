-- Removes the owner of a running task if it is this worker.
-- KEYS: task. ARGV: worker's id.
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'owner')
end
return 1
