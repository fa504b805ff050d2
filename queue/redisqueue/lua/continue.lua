-- Adds the task of a row's current delivery at the head of its queue, unless that task exists. Its message is that of an earlier delivery's
-- task, which a worker has just taken. The earlier task was still queued because its worker returned it between revoke.lua and handover.lua.
-- KEYS: pending, task of the earlier delivery, task of the current delivery. ARGV: id of the current delivery, the same id as a field of
-- asynq's message.
local msg = redis.call('HGET', KEYS[2], 'msg')
if not msg or redis.call('EXISTS', KEYS[3]) == 1 then
  return 0
end
local t = redis.call('TIME')
redis.call('HSET', KEYS[3], 'msg', msg .. ARGV[2], 'state', 'pending', 'pending_since', string.format('%.0f', t[1] * 1000000000 + t[2] * 1000))
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
