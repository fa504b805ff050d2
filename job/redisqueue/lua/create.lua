-- Creates a batch. Returns 1, or 0 if it exists.
-- KEYS: meta. ARGV: fields and values.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
