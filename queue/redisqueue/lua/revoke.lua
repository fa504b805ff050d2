-- Ends a delivery whose worker is silent or has released it: later writes of that worker about the row are refused. If a silent worker
-- ran the row, a death is counted instead of a failed attempt. Returns the number of the next delivery.
-- KEYS: meta, done, attempts, deliveries, deaths. ARGV: line, number of the delivery, 1 if its worker is silent.
local this = tonumber(ARGV[2])
if redis.call('HEXISTS', KEYS[1], 'created_ms') == 0 or redis.call('HEXISTS', KEYS[1], 'cancelled_ms') == 1
    or redis.call('GETBIT', KEYS[2], ARGV[1]) == 1 then
  return this + 1 -- the worker that takes the next delivery drops it
end
local current = tonumber(redis.call('HGET', KEYS[4], ARGV[1]) or 0)
if current > this then
  return current -- the delivery was ended before, but the next one was not queued
end
redis.call('HSET', KEYS[4], ARGV[1], this + 1)
local attempts = tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or 0)
if ARGV[3] == '1' and attempts > 0 then
  redis.call('HINCRBY', KEYS[5], ARGV[1], 1)
  if attempts > 1 then
    redis.call('HINCRBY', KEYS[3], ARGV[1], -1)
  else
    redis.call('HDEL', KEYS[3], ARGV[1])
  end
end
return this + 1
