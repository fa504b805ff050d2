-- Subtracts the attempt of a job that returned to the queue. Does nothing if the row is recorded or was taken from this delivery's worker.
-- KEYS: attempts, deliveries. ARGV: line, number of the delivery.
if tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0) ~= tonumber(ARGV[2]) then
  return 0
end
local n = tonumber(redis.call('HGET', KEYS[1], ARGV[1]))
if not n then
  return 0
end
if n > 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1
