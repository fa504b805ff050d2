-- Declares a worker lost, unless it has sent another heartbeat than the given one. Returns 1, or 0 if the worker is alive or has no record.
-- Deletes the records of workers that were declared lost long ago.
-- KEYS: records, beats, lost. ARGV: worker's id, its last known heartbeat, age in ms from which records of lost workers are deleted.
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
  if ms - tonumber(string.match(all[i + 1], '^%d+')) > tonumber(ARGV[3]) then
    redis.call('HDEL', KEYS[1], all[i])
    redis.call('HDEL', KEYS[3], all[i])
  end
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], string.format('%.0f %s', ms, ARGV[2]))
return 1
