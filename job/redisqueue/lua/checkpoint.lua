-- Stores the progress of a running row. Returns 1, 0 if the row is recorded, -1 if the batch is unknown, -2 if it is cancelled, -4 if
-- the delivery was ended.
-- KEYS: meta, done, deliveries, checkpoints. ARGV: line, number of the delivery, progress.
local is = redis.call('HMGET', KEYS[1], 'created_ms', 'cancelled_ms')
if not is[1] then
  return -1
end
if is[2] then
  return -2
end
if redis.call('GETBIT', KEYS[2], ARGV[1]) == 1 then
  return 0
end
if tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or 0) ~= tonumber(ARGV[2]) then
  return -4
end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[3])
return 1
