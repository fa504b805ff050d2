-- Counts an attempt at each of several rows, and makes a worker the owner of their deliveries. Returns a list with an item for each row: the
-- text of an error, or a list of the number of the attempt and the row's checkpoint, if there is one. If the attempt is refused, the list
-- has one number: a result of refusal, -6 if another model has answered rows of the alias, -7 if the task was taken from the worker
-- meanwhile. A repeated call for the same delivery counts no second attempt: the client repeats a call whose reply was lost.
-- refusal.lua precedes this script.
-- ARGV: now in ms, then of each row: batch, line, FileID or '', number of the delivery, alias that the row names or '', model or '', key of
-- the row's task, the worker's id. The last two are '' if Begin was called outside a handler of the row.
local changed = {} -- changed batches

local replies = each(2, 8, function(i, n)
  local id, line, file, delivery, alias, model, task, owner = unpack(ARGV, i, i + 7)
  local b = batch(id)
  local refused = refusal(b, line, delivery, file)
  if refused then
    return {refused}
  end
  if otherModel(b, alias, model) then
    return {-6}
  end
  if not b.counts then
    read(b, 'attempts')
    read(b, 'checkpoints')
    b.counts, b.begun = {}, {}
    changed[#changed + 1] = b
  end
  local repeated = false
  if owner ~= '' then
    local is = redis.call('HMGET', task, 'state', 'orphan', 'begun')
    if is[1] ~= 'active' then
      return {-7}
    end
    redis.call('HSET', task, 'owner', owner, 'begun', owner)
    repeated = is[3] == owner
    if is[2] then
      redis.call('HDEL', task, 'orphan')
    end
  end
  local row = b.rows[line]
  row.attempts = tonumber(row.attempts or 0) + (repeated and 0 or 1)
  b.counts[#b.counts + 1] = line
  b.counts[#b.counts + 1] = row.attempts
  b.begun[#b.begun + 1] = n
  return {row.attempts, row.checkpoints or nil}
end)

for _, b in ipairs(changed) do
  if #b.begun > 0 then
    local text, failed = attempt(function()
      if not b.started then
        redis.call('HSETNX', b.meta, 'started_ms', ARGV[1])
      end
      redis.call('HSET', b.attempts, unpack(b.counts))
    end)
    for _, n in ipairs(failed and b.begun or {}) do
      replies[n] = text
    end
  end
end
return replies
