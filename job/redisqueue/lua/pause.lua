-- Stops asynq from taking tasks of a queue. Returns 1, or 0 if the queue is paused already. It works while Redis has no memory left:
-- after a write that needs none, here DEL, Redis lets a script make writes that need memory.
-- KEYS: asynq's mark of a paused queue. ARGV: time in s.
local since = redis.call('GET', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], since or ARGV[1])
return since and 0 or 1
