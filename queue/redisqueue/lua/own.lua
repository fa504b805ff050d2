-- Makes a worker the owner of a delivery. Returns 1, or 0 if the task was taken from the worker meanwhile.
-- KEYS: task. ARGV: worker's id.
if redis.call('HGET', KEYS[1], 'state') ~= 'active' then
  return 0
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('HDEL', KEYS[1], 'orphan')
return 1
