-- Counts an attempt at each of several rows, and makes a worker the owner of their deliveries. A
-- repeated call for the same delivery counts no second attempt: the client repeats a call whose
-- reply was lost. lib/rows.lua precedes this script. Values: now. Rows: batch, line, file (FileID
-- or ''), delivery, alias (that the row names, or ''), pin (of the worker's model, or ''), task
-- (its key), worker. Returns a list with an item for each row: the text of an error, or a list of
-- the number of the attempt and the row's checkpoint, if there is one, or a list of one number with
-- which the row is refused.
local changed = {} -- changed batches

local replies = each(function(row, b, n)
  local refused = refusal(b, row.line, row.delivery, row.file)
  if refused then
    return {refused}
  end
  if otherModel(b, row.alias, row.pin) then
    return {reply.other_model}
  end
  if not b.counts then
    read(b, 'attempts')
    read(b, 'checkpoints')
    b.counts, b.begun = {}, {}
    changed[#changed + 1] = b
  end
  local is = redis.call('HMGET', row.task, 'state', 'orphan', 'begun')
  if is[1] ~= 'active' then
    return {reply.not_running}
  end
  redis.call('HSET', row.task, 'owner', row.worker, 'begun', row.worker)
  if is[2] then
    redis.call('HDEL', row.task, 'orphan')
  end
  local line = b.rows[row.line]
  line.attempts = whole(line.attempts) + (is[3] == row.worker and 0 or 1)
  b.counts[#b.counts + 1] = row.line
  b.counts[#b.counts + 1] = line.attempts
  b.begun[#b.begun + 1] = n
  return {line.attempts, line.checkpoints or nil}
end)

for _, b in ipairs(changed) do
  if #b.begun > 0 then
    local text, failed = attempt(function()
      if not b.started then
        redis.call('HSETNX', b.keys.meta, 'started_ms', arg.now)
      end
      redis.call('HSET', b.keys.attempts, unpack(b.counts))
    end)
    for _, n in ipairs(failed and b.begun or {}) do
      replies[n] = text
    end
  end
end
return replies
