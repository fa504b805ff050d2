-- Stops workers from taking tasks of a queue. Returns 1, or 0 if the queue is paused already. It works even while Redis has no memory left:
-- a script that first makes a write that needs no memory, here DEL, may make other writes after it.
-- KEYS: asynq's key of the pause. ARGV: now in s.
local since = redis.call('GET', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], since or ARGV[1])
return since and 0 or 1
