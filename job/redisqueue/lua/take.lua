-- Takes tasks as asynq does, each of the first queue that has one, and refills the lists that they came from. Returns queue, id and message of
-- each task. Follows fill.lua.
-- ARGV: time in s at which asynq's leases are over, number of queues, the queues, then for each task the order in which the queues are
-- asked: their numbers, from 1, as digits.
local tasks, taken, empty = {}, {}, {}

-- take takes a task of a queue, and returns whether there was one.
local function take(queue)
  local asynq = 'asynq:{' .. queue .. '}:'
  if redis.call('EXISTS', asynq .. 'paused') == 1 then
    return false
  end
  while true do
    local id = redis.call('RPOPLPUSH', asynq .. 'pending', asynq .. 'active')
    if not id and taken[queue] then
      fill(queue) -- this script has emptied the list
      id = redis.call('RPOPLPUSH', asynq .. 'pending', asynq .. 'active')
    end
    if not id then
      return false
    end
    local task = asynq .. 't:' .. id
    local msg = redis.call('HGET', task, 'msg')
    if msg then
      redis.call('HSET', task, 'state', 'active')
      redis.call('HDEL', task, 'pending_since', 'owner', 'orphan', 'begun')
      redis.call('ZADD', asynq .. 'lease', ARGV[1], id)
      taken[queue] = true
      for _, text in ipairs({queue, id, msg}) do
        tasks[#tasks + 1] = text
      end
      return true
    end
    redis.call('LREM', asynq .. 'active', 1, id) -- its task is gone
  end
end

local queues = tonumber(ARGV[2])
for i = 3 + queues, #ARGV do
  local found = false
  for n in string.gmatch(ARGV[i], '%d') do
    local queue = ARGV[2 + n]
    found = not empty[queue] and take(queue)
    if found then
      break
    end
    empty[queue] = true
  end
  if not found then
    break
  end
end
for queue in pairs(taken) do
  fill(queue)
end
return tasks
