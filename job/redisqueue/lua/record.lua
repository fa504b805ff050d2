-- Records rows: stores their results, counts them, and appends their lines to the streams of their batches. Returns a list with an item
-- for each row: 1, a refusal, -6 if another model has answered rows of the alias, or the text of an error. The first answer under an alias
-- pins its model. The task of a row leaves its queue as asynq's tasks do when they are done. What can be written for all rows together is written
-- at the end. Follows refusal.lua and finish.lua.
-- ARGV: now in ms, today, time in s until which asynq counts the tasks of today, then of each row: batch, line, result, 'done' or
-- 'failed', checksum of the row, FileID or '', job of a failed row or '', number of the delivery, alias that the row names or '', model of an
-- answer or '', queue and id of its task or '', then the numbers of tokens, in the order of counters.
local counters = {'prompt_tokens', 'cached_tokens', 'completion_tokens', 'draft_tokens', 'accepted_tokens'}
local changed, queues = {}, {} -- changed batches, and queues that tasks have left

local function leave(name, id)
  local asynq = 'asynq:{' .. name .. '}:'
  if redis.call('LREM', asynq .. 'active', -1, id) == 0 then
    return
  end
  if not queues[asynq] then
    queues[asynq] = {ids = {}, tasks = {}}
  end
  local q = queues[asynq]
  q.ids[#q.ids + 1] = id
  q.tasks[#q.tasks + 1] = asynq .. 't:' .. id
end

local replies = each(4, 17, function(i)
  local id, line, result, outcome, sum, file, failed, delivery, alias, model, queue, task = unpack(ARGV, i, i + 11)
  local b = batch(id)
  local refused = refusal(b, line, delivery, file)
  if refused then
    return refused
  end
  if otherModel(b, alias, model) then
    return -6
  end
  pin(b, alias, model)
  redis.call('HSET', b.results, line, result)
  redis.call('XADD', b.stream, '*', 'line', line, 'sum', sum, 'failed', outcome == 'failed' and 1 or 0) -- a number takes 2 bytes
  redis.call('SETBIT', b.done, line, 1)
  if not b.count then
    b.count, b.recorded, b.answered = {}, {}, {}
    changed[#changed + 1] = b
  end
  local function count(name, n)
    b.count[name] = (b.count[name] or 0) + n
  end
  count(outcome, 1)
  for n, name in ipairs(counters) do
    local tokens = tonumber(ARGV[i + 11 + n])
    if tokens > 0 then
      count(name, tokens)
    end
  end
  b.recorded[#b.recorded + 1] = line
  if failed ~= '' then
    redis.call('HSET', b.jobs, line, failed)
  else
    b.answered[#b.answered + 1] = line
  end
  if task ~= '' then
    leave(queue, task)
  end
  return 1
end)

for _, b in ipairs(changed) do
  for name, n in pairs(b.count) do
    redis.call('HINCRBY', b.meta, name, n)
  end
  redis.call('HSET', b.meta, 'last_ms', ARGV[1])
  for _, key in ipairs({b.attempts, b.checkpoints, b.deliveries, b.deaths}) do
    redis.call('HDEL', key, unpack(b.recorded))
  end
  if #b.answered > 0 then
    redis.call('HDEL', b.jobs, unpack(b.answered))
  end
  finish(b.keys)
end
for asynq, q in pairs(queues) do
  redis.call('ZREM', asynq .. 'lease', unpack(q.ids))
  redis.call('DEL', unpack(q.tasks))
  redis.call('INCRBY', asynq .. 'processed', #q.ids)
  local today = asynq .. 'processed:' .. ARGV[2]
  if redis.call('INCRBY', today, #q.ids) == #q.ids then
    redis.call('EXPIREAT', today, ARGV[3])
  end
end
return replies
