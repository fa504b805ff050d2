-- Writes a worker's record. Returns the time in ms, or 0 if the worker was declared lost and must continue under another id.
-- KEYS: records, beats, lost. ARGV: worker's id, record.
if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then
  return 0
end
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', ms))
return ms
