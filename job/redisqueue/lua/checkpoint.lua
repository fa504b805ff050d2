-- Stores the progress of a running row. Returns 1, or a refusal. Appended to refusal.lua.
-- KEYS: meta, done, deliveries, checkpoints. ARGV: line, number of the delivery, progress.
local refused = refusal(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], '')
if refused then
  return refused
end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[3])
return 1
