-- batch returns the keys and settings of a batch. A script reads them once. mixed is set if several models may answer its rows.
local names = {'meta', 'done', 'attempts', 'results', 'stream', 'jobs', 'checkpoints', 'deliveries', 'deaths'}
local batches = {}
local function batch(id)
  local b = batches[id]
  if not b then
    b = {keys = {}}
    for i, name in ipairs(names) do
      b.keys[i] = 'ingot:{' .. id .. '}:' .. name
      b[name] = b.keys[i]
    end
    local pin
    b.created, b.cancelled, b.file, b.lines, b.mixed, pin =
      unpack(redis.call('HMGET', b.meta, 'created_ms', 'cancelled_ms', 'file_sha256', 'lines', 'mixed', 'pin'))
    b.pins = {[''] = pin}
    batches[id] = b
  end
  return b
end

-- pinOf returns the model that answered rows under an alias, or false. The alias is '' for rows that name none.
local function pinOf(b, alias)
  if b.pins[alias] == nil then
    b.pins[alias] = redis.call('HGET', b.meta, 'pin:' .. alias)
  end
  return b.pins[alias]
end

-- otherModel reports whether a model may not answer rows under an alias, because another one has.
local function otherModel(b, alias, model)
  local first = model ~= '' and not b.mixed and pinOf(b, alias)
  return first and first ~= model
end

-- pin makes a model the one that answers rows under an alias, unless there is one.
local function pin(b, alias, model)
  if model ~= '' and not pinOf(b, alias) then
    redis.call('HSET', b.meta, alias == '' and 'pin' or 'pin:' .. alias, model)
    b.pins[alias] = model
  end
end

-- refusal returns the reason why a write about a row is refused: -1 if the batch is unknown, -2 if it is cancelled, -3 if the row is of
-- another file, -5 if the file has no such line, 0 if the row is recorded, -4 if the row was taken from this delivery. It returns nil if
-- the write is allowed. file is a FileID, or '' for any file.
local function refusal(b, line, delivery, file)
  if not b.created then
    return -1
  end
  if b.cancelled then
    return -2
  end
  if file ~= '' and b.file and b.file ~= '' and string.sub(b.file, 1, #file) ~= file then
    return -3
  end
  if b.lines and tonumber(line) > tonumber(b.lines) then
    return -5
  end
  if redis.call('GETBIT', b.done, line) == 1 then
    return 0
  end
  if tonumber(redis.call('HGET', b.deliveries, line) or 0) ~= tonumber(delivery) then
    return -4
  end
end

-- each calls a function with the position in ARGV of each of several rows, which have the given number of values. It returns a list of
-- what the function returns for the rows. If the function fails for a row, the list has the text of the error instead.
local function each(first, values, row)
  local replies = {}
  for i = first, #ARGV, values do
    local ok, reply = pcall(row, i)
    if not ok then
      reply = type(reply) == 'table' and reply.err or tostring(reply)
    end
    replies[#replies + 1] = reply
  end
  return replies
end
