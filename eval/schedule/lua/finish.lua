-- Ends a slot with its outcome and, if one is given, adds a notice. Returns 1, or 0 if another scheduler holds the lease; that scheduler
-- then ends the slot.
-- KEYS: lease, open, slot, notices. ARGV: owner, slot, notice or '', time, then fields of the outcome and their values.
if redis.call('HGET', KEYS[3], 'state') == 'done' then
  return redis.call('HGET', KEYS[3], 'owner') == ARGV[1] and 1 or 0 -- 1 if this call is repeated because its first answer was lost
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[3], 'state', 'done', 'ended', ARGV[4], unpack(ARGV, 5))
redis.call('ZREM', KEYS[2], ARGV[2])
if ARGV[3] ~= '' then
  redis.call('ZADD', KEYS[4], 0, ARGV[3])
end
redis.call('DEL', KEYS[1])
return 1
