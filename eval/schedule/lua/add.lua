-- Adds a slot of RunNow. Returns 1, or 0 if a slot of the entry is already waiting.
-- KEYS: order, open, slot. ARGV: slot.
if redis.call('ZCARD', KEYS[2]) > 1 or redis.call('EXISTS', KEYS[3]) == 1 then
  return 0
end
redis.call('HSET', KEYS[3], 'state', 'waiting')
redis.call('ZADD', KEYS[1], 0, ARGV[1])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
