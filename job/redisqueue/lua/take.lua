-- Takes the next task of the first queue that has one, as asynq does, and refills that queue's pending list. Returns the task's
-- message, or nil. Appended to fill.lua.
-- ARGV: time in s at which asynq's lease is over, then the queues.
for i = 2, #ARGV do
  local asynq = 'asynq:{' .. ARGV[i] .. '}:'
  local id = redis.call('EXISTS', asynq .. 'paused') == 0 and redis.call('RPOPLPUSH', asynq .. 'pending', asynq .. 'active')
  while id do
    local task = asynq .. 't:' .. id
    local msg = redis.call('HGET', task, 'msg')
    if msg then
      redis.call('HSET', task, 'state', 'active')
      redis.call('HDEL', task, 'pending_since', 'owner', 'orphan')
      redis.call('ZADD', asynq .. 'lease', ARGV[1], id)
      fill(ARGV[i])
      return msg
    end
    redis.call('LREM', asynq .. 'active', 1, id) -- the task does not exist any more
    id = redis.call('RPOPLPUSH', asynq .. 'pending', asynq .. 'active')
  end
end
return false
