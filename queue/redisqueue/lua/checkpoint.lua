-- Stores the checkpoint of a running row. Returns 1, or a result of refusal. refusal.lua precedes this script.
-- ARGV: batch, line, number of the delivery, checkpoint.
lines[ARGV[1]] = {ARGV[2]}
local b = batch(ARGV[1])
local refused = refusal(b, ARGV[2], ARGV[3], '')
if refused then
  return refused
end
redis.call('HSET', b.checkpoints, ARGV[2], ARGV[4])
return 1
