-- Takes an entry's lease and its oldest slot that is not finished. Returns the slot and the number of the attempt, or nothing if another
-- scheduler has the lease or there is no slot.
-- KEYS: lease, open. ARGV: prefix of slots' keys, owner, lease in ms, time.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[2] then
  return false
end
local slot = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not slot then
  return false
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
local key = ARGV[1] .. slot
redis.call('HSET', key, 'state', 'running', 'owner', ARGV[2])
redis.call('HSETNX', key, 'started', ARGV[4])
return {slot, redis.call('HINCRBY', key, 'attempt', 1)}
