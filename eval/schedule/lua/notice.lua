-- Takes a notice that is due. Returns the notice and the number of the attempt, or nothing if none is due.
-- KEYS: notices. ARGV: prefix of the slots' keys, ms until it is due again.
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local notice = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms, 'LIMIT', 0, 1)[1]
if not notice then
  return false
end
redis.call('ZADD', KEYS[1], ms + ARGV[2], notice)
local key = ARGV[1] .. notice
return {notice, redis.call('HINCRBY', key, 'notices', 1)}
