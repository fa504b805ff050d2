-- Takes tasks as asynq does, and refills the lists that they came from. Each task comes from the first queue in its order that has one. Returns
-- queue, id and message of each task. fill.lua precedes this script.
-- ARGV: time in s at which asynq's leases are over, number of queues, the queues, then for each task the order in which the queues are
-- tried: their numbers, from 1, as digits.
local tasks, queues, left = {}, {}, #ARGV - 2 - tonumber(ARGV[2])

-- move moves the chosen tasks of a queue from the list of pending to the list of active tasks, and refills the former. Ids whose task is
-- gone are only removed.
local function move(q)
  if q.seen == 0 then
    return
  end
  if #q.ids > 0 then
    redis.call('LPUSH', q.asynq .. 'active', unpack(q.ids)) -- the first write: it fails if Redis has no memory left
  end
  redis.call('RPOP', q.asynq .. 'pending', q.seen)
  if #q.ids > 0 then
    redis.call('ZADD', q.asynq .. 'lease', unpack(q.leases))
    for _, id in ipairs(q.ids) do
      redis.call('HSET', q.asynq .. 't:' .. id, 'state', 'active')
      redis.call('HDEL', q.asynq .. 't:' .. id, 'pending_since', 'owner', 'orphan', 'begun')
    end
  end
  fill(q.name)
  q.seen, q.ids, q.leases = 0, {}, {}
end

-- take chooses the next task of a queue, and returns whether there is one.
local function take(name)
  local q = queues[name]
  if not q then
    q = {name = name, asynq = 'asynq:{' .. name .. '}:', pending = {}, seen = 0, ids = {}, leases = {}}
    q.ended = redis.call('EXISTS', q.asynq .. 'paused') == 1
    queues[name] = q
  end
  while not q.ended do
    if q.seen == #q.pending then
      move(q)
      q.pending = redis.call('LRANGE', q.asynq .. 'pending', -left, -1) -- the last is the first to be taken
      q.ended = #q.pending == 0
      if q.ended then
        redis.call('RPOPLPUSH', q.asynq .. 'pending', q.asynq .. 'active') -- moves nothing, but fails if nothing can be written
      end
    else
      local id = q.pending[#q.pending - q.seen]
      q.seen = q.seen + 1
      local msg = redis.pcall('HGET', q.asynq .. 't:' .. id, 'msg')
      if type(msg) == 'string' then
        q.ids[#q.ids + 1] = id
        q.leases[#q.leases + 1] = ARGV[1]
        q.leases[#q.leases + 1] = id
        tasks[#tasks + 1] = name
        tasks[#tasks + 1] = id
        tasks[#tasks + 1] = msg
        return true
      end
    end
  end
  return false
end

for i = 3 + tonumber(ARGV[2]), #ARGV do
  local found = false
  for n in string.gmatch(ARGV[i], '%d') do
    found = take(ARGV[2 + n])
    if found then
      break
    end
  end
  if not found then
    break
  end
  left = left - 1
end
for _, q in pairs(queues) do
  move(q)
end
return tasks
