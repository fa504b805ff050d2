-- Puts tasks at the end of a queue, each unless a task with its id exists, as asynq's own script does for one task. Returns the
-- numbers of those that exist, from 1.
-- KEYS: the queue's pending list. ARGV: prefix of the keys of tasks, now in ns, then id and message of each task.
local known = {}
for i = 3, #ARGV, 2 do
  local key = ARGV[1] .. ARGV[i]
  if redis.call('EXISTS', key) == 1 then
    known[#known + 1] = (i - 1) / 2
  else
    redis.call('HSET', key, 'msg', ARGV[i + 1], 'state', 'pending', 'pending_since', ARGV[2])
    redis.call('LPUSH', KEYS[1], ARGV[i])
  end
end
return known
