-- Queues the current delivery of a row at the head of its queue, unless it is queued. It gets the message of an earlier delivery's
-- task. That task is in the queue because its worker returned it after revoke.lua and before handover.lua.
-- KEYS: pending, task, new task. ARGV: new id, new id as a field of asynq's message.
local msg = redis.call('HGET', KEYS[2], 'msg')
if not msg or redis.call('EXISTS', KEYS[3]) == 1 then
  return 0
end
local t = redis.call('TIME')
redis.call('HSET', KEYS[3], 'msg', msg .. ARGV[2], 'state', 'pending', 'pending_since', string.format('%.0f', t[1] * 1000000000 + t[2] * 1000))
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
