-- Records rows: stores their results, counts them, and appends their lines to the streams of their
-- batches. The first answer under an alias pins its model. The task of a row leaves its queue as
-- asynq's tasks do when they are done. What can be written for all rows of a batch together is
-- written at the end. lib/rows.lua, lib/finish.lua and lib/stats.lua precede this script. Values:
-- now, today, expire (Unix time in s at which asynq's counts of today expire). Rows: batch, line,
-- text (the result), failed (1 or 0), sum, file (FileID or ''), job (of a failed row, or ''),
-- delivery, alias (that the row names, or ''), pin (of an answer's model, or ''), queue and id (of
-- the row's task, or ''), worker (that took the row, or ''), and the counters. Returns a list with
-- an item for each row: reply.ok, the number with which the row is refused, or the text of an
-- error.
local changed, queues = {}, {} -- changed batches, and queues that tasks have left

local function leave(row)
  local queue, id = row.queue, row.id
  if redis.call('LREM', asynqKey(queue, 'active'), -1, id) == 0 then
    return
  end
  queues[queue] = queues[queue] or {}
  table.insert(queues[queue], taskKey(queue, id))
end

-- add collects what write needs for a row.
local function add(new, row)
  local line, at = row.line, #new.rows
  new.rows[at + 1], new.recorded[at + 1] = row, line
  new.results[2 * at + 1], new.results[2 * at + 2] = line, row.text
  new.bits[4 * at + 1], new.bits[4 * at + 2], new.bits[4 * at + 3], new.bits[4 * at + 4] = 'SET', 'u1', line, '1'
  local counts, outcome = new.counts, row.failed == '1' and 'failed' or 'done'
  counts[outcome] = (counts[outcome] or 0) + 1
  for _, name in ipairs(counters) do
    if row[name] ~= '0' then
      counts[name] = (counts[name] or 0) + tonumber(row[name])
    end
  end
  if row.job ~= '' then
    new.jobs[#new.jobs + 1] = line
    new.jobs[#new.jobs + 1] = row.job
  else
    new.answered[#new.answered + 1] = line
  end
end

-- isRepeated reports whether an earlier call with this result of a worker has recorded the row. The
-- client repeats a call whose reply was lost. If the result was freed meanwhile, it was this
-- worker's unless the worker was declared lost.
local function isRepeated(b, row)
  if row.id == '' then
    return false
  end
  local stored = redis.call('HGET', b.keys.results, row.line)
  return stored == row.text or not stored and redis.call('HEXISTS', fleetKey('beats'), row.worker) == 1
end

local replies = each(function(row, b, n)
  local refused = refusal(b, row.line, row.delivery, row.file)
  if refused then
    if refused == reply.recorded and b.rows[row.line].now then -- an earlier row of this call has the same line; both get the error if write fails
      table.insert(b.new.replies, n)
    elseif refused == reply.recorded and isRepeated(b, row) then
      return reply.ok
    end
    return refused
  end
  if otherModel(b, row.alias, row.pin) then
    return reply.other_model
  end
  pin(b, row.alias, row.pin)
  if not b.new then
    b.new = {counts = {}, recorded = {}, rows = {}, answered = {}, results = {}, jobs = {}, bits = {}, replies = {}}
    changed[#changed + 1] = b
  end
  local line = b.rows[row.line]
  line.recorded, line.now = true, true
  b.new.taken = b.new.taken or line.deliveries
  table.insert(b.new.replies, n)
  add(b.new, row)
  return reply.ok
end)

-- write records the collected rows of a batch.
local function write(b)
  local new, keys = b.new, b.keys
  redis.call('HSET', keys.results, unpack(new.results))
  for _, row in ipairs(new.rows) do
    redis.call('XADD', keys.stream, '*', 'line', row.line, 'sum', row.sum, 'failed', row.failed)
  end
  if #new.jobs > 0 then
    redis.call('HSET', keys.jobs, unpack(new.jobs))
  end
  redis.call('BITFIELD', keys.done, unpack(new.bits))
  for name, n in pairs(new.counts) do
    redis.call('HINCRBY', keys.meta, name, n)
  end
  redis.call('HSET', keys.meta, 'last_ms', arg.now)
  redis.call('HDEL', keys.attempts, unpack(new.recorded))
  redis.call('HDEL', keys.checkpoints, unpack(new.recorded))
  if new.taken then -- at least one row was taken from a silent worker
    redis.call('HDEL', keys.deliveries, unpack(new.recorded))
    redis.call('HDEL', keys.deaths, unpack(new.recorded))
  end
  if #new.answered > 0 then
    redis.call('HDEL', keys.jobs, unpack(new.answered))
  end
  finish(keys)
  for _, row in ipairs(new.rows) do
    if row.id ~= '' then
      leave(row)
    end
  end
end

for _, b in ipairs(changed) do
  local text, failed = attempt(write, b)
  for _, n in ipairs(failed and b.new.replies or {}) do
    replies[n] = text
  end
end
for queue, tasks in pairs(queues) do
  redis.call('DEL', unpack(tasks))
  countTasks(queue, 'processed', #tasks)
end
return replies
