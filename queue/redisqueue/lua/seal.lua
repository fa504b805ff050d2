-- Sets the number of rows of a batch, once all are queued. Returns -1 if the batch is unknown, -2 if it is cancelled.
-- finish.lua precedes this script.
-- KEYS: meta, done, attempts, results, stream, jobs, checkpoints, deliveries, deaths. ARGV: total, now in ms, SHA-256 of the file.
local is = redis.call('HMGET', KEYS[1], 'created_ms', 'cancelled_ms')
if not is[1] then
  return -1
end
if is[2] then
  return -2
end
redis.call('HSET', KEYS[1], 'total', ARGV[1], 'file_sha256', ARGV[3])
redis.call('HSETNX', KEYS[1], 'last_ms', ARGV[2])
finish(KEYS)
return 1
