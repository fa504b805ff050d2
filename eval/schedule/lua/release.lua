-- Gives up the lease of an unfinished slot. If wait is above 0, no scheduler takes the slot for that time. If wait is 0, because the owner
-- is stopping, the attempt is not counted.
-- KEYS: lease, slot. ARGV: owner, wait in ms, message.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], 'state', 'waiting', 'message', ARGV[3])
if ARGV[2] == '0' then
  redis.call('HINCRBY', KEYS[2], 'attempt', -1)
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], 'wait', 'PX', ARGV[2])
end
return 1
