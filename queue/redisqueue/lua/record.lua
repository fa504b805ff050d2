-- Records rows: stores their results, counts them, and appends their lines to the streams of their batches. Returns a list with an item
-- for each row: 1, a result of refusal, -6 if another model has answered rows of the alias, or the text of an error. The first
-- answer under an alias pins its model. The task of a row leaves its queue as asynq's tasks do when they are done. What can be written for
-- all rows of a batch together is written at the end. refusal.lua and finish.lua precede this script.
-- ARGV: now in ms, today, Unix time in s at which asynq's counts of today expire, then of each row: batch, line, result, 'done' or
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

-- add collects what write needs for a row. i is the row's position in ARGV.
local function add(new, i)
  local line, at = ARGV[i + 1], #new.recorded
  new.results[2 * at + 1], new.results[2 * at + 2] = line, ARGV[i + 2]
  new.recorded[at + 1] = line
  new.positions[at + 1] = i
  new.bits[4 * at + 1], new.bits[4 * at + 2], new.bits[4 * at + 3], new.bits[4 * at + 4] = 'SET', 'u1', line, '1'
  local counts, outcome = new.counts, ARGV[i + 3]
  counts[outcome] = (counts[outcome] or 0) + 1
  for k = 1, #counters do
    local tokens = ARGV[i + 11 + k]
    if tokens ~= '0' then
      counts[counters[k]] = (counts[counters[k]] or 0) + tonumber(tokens)
    end
  end
  if ARGV[i + 6] ~= '' then
    new.jobs[#new.jobs + 1] = line
    new.jobs[#new.jobs + 1] = ARGV[i + 6]
  else
    new.answered[#new.answered + 1] = line
  end
end

local replies = each(4, 17, function(i, n)
  local line, alias, model = ARGV[i + 1], ARGV[i + 8], ARGV[i + 9]
  local b = batch(ARGV[i])
  local refused = refusal(b, line, ARGV[i + 7], ARGV[i + 5])
  if refused then
    if refused == 0 and b.rows[line].now then -- an earlier row of this call has the same line; both get the error if write fails
      b.new.replies[#b.new.replies + 1] = n
    end
    return refused
  end
  if otherModel(b, alias, model) then
    return -6
  end
  pin(b, alias, model)
  if not b.new then
    b.new = {counts = {}, recorded = {}, positions = {}, answered = {}, results = {}, jobs = {}, bits = {}, replies = {}}
    changed[#changed + 1] = b
  end
  local row = b.rows[line]
  row.recorded, row.now = true, true
  b.new.taken = b.new.taken or row.deliveries
  b.new.replies[#b.new.replies + 1] = n
  add(b.new, i)
  return 1
end)

-- write records the collected rows of a batch.
local function write(b)
  local new = b.new
  redis.call('HSET', b.results, unpack(new.results))
  for _, i in ipairs(new.positions) do
    redis.call('XADD', b.stream, '*', 'line', ARGV[i + 1], 'sum', ARGV[i + 4], 'failed', ARGV[i + 3] == 'failed' and '1' or '0')
  end
  if #new.jobs > 0 then
    redis.call('HSET', b.jobs, unpack(new.jobs))
  end
  redis.call('BITFIELD', b.done, unpack(new.bits))
  for name, n in pairs(new.counts) do
    redis.call('HINCRBY', b.meta, name, n)
  end
  redis.call('HSET', b.meta, 'last_ms', ARGV[1])
  redis.call('HDEL', b.attempts, unpack(new.recorded))
  redis.call('HDEL', b.checkpoints, unpack(new.recorded))
  if new.taken then -- at least one row was taken from a silent worker
    redis.call('HDEL', b.deliveries, unpack(new.recorded))
    redis.call('HDEL', b.deaths, unpack(new.recorded))
  end
  if #new.answered > 0 then
    redis.call('HDEL', b.jobs, unpack(new.answered))
  end
  finish(b.keys)
  for _, i in ipairs(new.positions) do
    if ARGV[i + 11] ~= '' then
      leave(ARGV[i + 10], ARGV[i + 11])
    end
  end
end

for _, b in ipairs(changed) do
  local text, failed = attempt(write, b)
  for _, n in ipairs(failed and b.new.replies or {}) do
    replies[n] = text
  end
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
