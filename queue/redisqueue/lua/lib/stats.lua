-- countTasks adds to one of asynq's counts of a queue, as asynq does when a task ends. It reads
-- arg.today and arg.expire.
local function countTasks(queue, name, n)
  redis.call('INCRBY', asynqKey(queue, name), n)
  local today = asynqKey(queue, name .. ':' .. arg.today)
  if redis.call('INCRBY', today, n) == n then
    redis.call('EXPIREAT', today, arg.expire)
  end
end
