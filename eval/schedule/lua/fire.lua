-- Adds the due slots of an entry and sets the entry's mark, the time up to which slots were added.
-- Does nothing if another scheduler has changed the mark since this one read it. Returns 1, or 0 if
-- it did nothing. KEYS: marks, order, open, paused. ARGV: prefix of slots' keys, entry, spec, mark
-- that was read, new mark, ms now, then pairs of slot and state, the oldest first.
local seen = 'seen:' .. ARGV[3]
if (redis.call('HGET', KEYS[1], ARGV[3]) or '') ~= ARGV[4] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[5], seen, ARGV[6])
local paused = redis.call('SISMEMBER', KEYS[4], ARGV[2]) == 1
-- One slot may wait while another is running. Further ones are not run, so that late slots do not
-- accumulate.
local full = redis.call('ZCARD', KEYS[3]) > 1
for i = 7, #ARGV, 2 do
  local slot, state, key = ARGV[i], ARGV[i + 1], ARGV[1] .. ARGV[i]
  if redis.call('EXISTS', key) == 0 then
    if state == 'waiting' and paused then
      state = 'paused'
    elseif state == 'waiting' and full then
      state = 'overlapped'
    end
    redis.call('HSET', key, 'state', state)
    redis.call('ZADD', KEYS[2], 0, slot)
    if state == 'waiting' then
      redis.call('ZADD', KEYS[3], 0, slot)
    end
  end
end
-- Delete old slots, and the marks of cron expressions that the entry had before.
local marks = redis.call('HGETALL', KEYS[1])
for i = 1, #marks, 2 do
  if string.sub(marks[i], 1, 5) == 'seen:' and tonumber(marks[i + 1]) < tonumber(ARGV[6]) - 600000 then
    redis.call('HDEL', KEYS[1], marks[i], string.sub(marks[i], 6))
  end
end
local surplus = redis.call('ZCARD', KEYS[2]) - 1000
if surplus > 0 then
  for _, slot in ipairs(redis.call('ZRANGE', KEYS[2], 0, surplus - 1)) do
    if not redis.call('ZSCORE', KEYS[3], slot) then
      redis.call('DEL', ARGV[1] .. slot)
      redis.call('ZREM', KEYS[2], slot)
    end
  end
end
return 1
