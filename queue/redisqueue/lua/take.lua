-- Takes tasks, and refills the lists that they came from. Each task comes from the first queue in
-- its order that has one. lib/fill.lua precedes this script. Values: queues (their names, separated
-- by spaces), context (of the worker, in tokens). Rows: order, one for each wanted task (the
-- numbers of the queues, from 1, as digits, in the order in which they are tried). Returns queue,
-- id, message, number of the delivery and number of deaths of each task.
local names, tasks, queues, left = {}, {}, {}, #rows
for name in string.gmatch(arg.queues, '%S+') do
  names[#names + 1] = name
end

-- move moves the chosen tasks of a queue from the list of pending to the list of active tasks, and
-- refills the former. Ids whose task is gone are only removed.
local function move(q)
  if q.seen == 0 then
    return
  end
  if #q.ids > 0 then
    redis.call('LPUSH', q.active, unpack(q.ids)) -- the first write: it fails if Redis has no memory left
  end
  redis.call('RPOP', q.pending, q.seen)
  for _, id in ipairs(q.ids) do
    redis.call('HSET', taskKey(q.name, id), 'state', 'active')
    redis.call('HDEL', taskKey(q.name, id), 'pending_since', 'owner', 'orphan', 'begun')
  end
  fill(q.name)
  q.seen, q.ids = 0, {}
end

-- count returns a number in a batch's hash for the row of a task; 0 if there is none.
local function count(id, name)
  local batch, line = rowOf(id)
  return batch and whole(redis.pcall('HGET', batchKey(batch, name), line)) or 0
end

-- add notes a task that is taken.
local function add(name, id, msg)
  local delivery = count(id, 'deliveries')
  tasks[#tasks + 1] = {name, id, msg, delivery, delivery > 0 and count(id, 'deaths') or 0}
end

-- takeLonger moves a task that was passed on to workers with a longer context, such as this one,
-- from the set of retries to the list of active tasks. It returns whether there is one.
local function takeLonger(name)
  local longer, retry = longerKey(name), asynqKey(name, 'retry')
  while true do
    local id = redis.call('ZRANGEBYSCORE', longer, '-inf', '(' .. arg.context, 'LIMIT', 0, 1)[1]
    if not id then
      return false
    end
    local task = taskKey(name, id)
    local msg = redis.call('ZSCORE', retry, id) and redis.pcall('HGET', task, 'msg')
    if type(msg) == 'string' then
      redis.call('LPUSH', asynqKey(name, 'active'), id) -- the first write: it fails if Redis has no memory left
      redis.call('ZREM', retry, id)
      redis.call('ZREM', longer, id)
      redis.call('HSET', task, 'state', 'active')
      redis.call('HDEL', task, 'pending_since', 'owner', 'orphan', 'begun')
      add(name, id, msg)
      return true
    end
    redis.call('ZREM', longer, id)
  end
end

-- take chooses the next task of a queue, and returns whether there is one.
local function take(name)
  local q = queues[name]
  if not q then
    q = {name = name, pending = asynqKey(name, 'pending'), active = asynqKey(name, 'active'), list = {}, seen = 0, ids = {}}
    q.ended = redis.call('EXISTS', asynqKey(name, 'paused')) == 1
    queues[name] = q
  end
  if not q.ended and takeLonger(name) then
    return true
  end
  while not q.ended do
    if q.seen == #q.list then
      move(q)
      q.list = redis.call('LRANGE', q.pending, -left, -1) -- the last is the first to be taken
      q.ended = #q.list == 0
      if q.ended then
        redis.call('RPOPLPUSH', q.pending, q.active) -- moves nothing, but fails if nothing can be written
      end
    else
      local id = q.list[#q.list - q.seen]
      q.seen = q.seen + 1
      local msg = redis.pcall('HGET', taskKey(name, id), 'msg')
      if type(msg) == 'string' then
        q.ids[#q.ids + 1] = id
        add(name, id, msg)
        return true
      end
    end
  end
  return false
end

for _, row in ipairs(rows) do
  local found = false
  for n in string.gmatch(row.order, '%d') do
    found = take(names[tonumber(n)])
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
