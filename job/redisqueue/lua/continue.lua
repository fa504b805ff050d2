-- Queues the present delivery of a row at the head, from the task of an earlier one, if it is not queued: a worker came back between
-- the two steps in which its delivery was ended.
-- KEYS: pending, task, new task. ARGV: new id, new id as a field of asynq's message.
local msg = redis.call('HGET', KEYS[2], 'msg')
if not msg or redis.call('EXISTS', KEYS[3]) == 1 then
  return 0
end
local t = redis.call('TIME')
redis.call('HSET', KEYS[3], 'msg', msg .. ARGV[2], 'state', 'pending', 'pending_since', string.format('%.0f', t[1] * 1000000000 + t[2] * 1000))
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
