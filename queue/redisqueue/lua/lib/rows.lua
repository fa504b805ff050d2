local batches, lines = {}, {} -- by their ids: the batches that were read, and the lines of the call's rows
for _, row in ipairs(rows) do
  lines[row.batch] = lines[row.batch] or {}
  table.insert(lines[row.batch], row.line)
end

-- batch returns the keys and settings of the batch of one of the call's rows. It reads them from
-- Redis once per script. mixed is set if several models may answer its rows.
local function batch(id)
  local b = batches[id]
  if not b then
    b = {keys = keysOf(id), rows = {}, asked = {}}
    local pin
    b.created, b.cancelled, b.file, b.lines, b.mixed, b.started, pin =
      unpack(redis.call('HMGET', b.keys.meta, 'created_ms', 'cancelled_ms', 'file_sha256', 'lines', 'mixed', 'started_ms', 'pin'))
    b.pins = {[''] = pin}
    for _, line in ipairs(lines[id]) do
      if not b.rows[line] and not (b.lines and tonumber(line) > tonumber(b.lines)) then
        b.rows[line] = {}
        b.asked[#b.asked + 1] = line
      end
    end
    batches[id] = b
  end
  return b
end

-- read reads the values of one of a batch's hashes for all lines of the call's rows. It stores them
-- in b.rows under the hash's name.
local function read(b, name)
  for i, value in ipairs(redis.call('HMGET', b.keys[name], unpack(b.asked))) do
    b.rows[b.asked[i]][name] = value
  end
end

-- pinOf returns the model that answered rows under an alias, or false. The alias is '' for rows
-- that name none.
local function pinOf(b, alias)
  if b.pins[alias] == nil then
    b.pins[alias] = redis.call('HGET', b.keys.meta, 'pin:' .. alias)
  end
  return b.pins[alias]
end

-- continues reports whether a pin begins with another one, which an earlier version stored without
-- the arithmetic.
local function continues(pin, first) return string.sub(pin, 1, #first + 1) == first .. '/' end

-- otherModel reports whether a model may not answer rows under an alias, because another model has
-- answered some of them. queue.PinsAgree has the same rule.
local function otherModel(b, alias, model)
  local first = model ~= '' and not b.mixed and pinOf(b, alias)
  return first and first ~= model and not continues(model, first)
end

-- pin stores a model as the one that answers rows under an alias, unless one is stored already. It
-- completes the pin of an earlier version.
local function pin(b, alias, model)
  local first = pinOf(b, alias)
  if model ~= '' and (not first or continues(model, first)) then
    redis.call('HSET', b.keys.meta, alias == '' and 'pin' or 'pin:' .. alias, model)
    b.pins[alias] = model
  end
end

-- refusal returns the number with which a write about a row is refused, or nil if the write is
-- allowed. file is a FileID, or '' for any file.
local function refusal(b, line, delivery, file)
  if not b.created then
    return reply.no_batch
  end
  if b.cancelled then
    return reply.cancelled
  end
  if file ~= '' and b.file and b.file ~= '' and string.sub(b.file, 1, #file) ~= file then
    return reply.other_file
  end
  local row = b.rows[line]
  if not row then
    return reply.no_row
  end
  if row.recorded == nil then
    read(b, 'deliveries')
    local gets = {}
    for _, asked in ipairs(b.asked) do
      gets[#gets + 1] = 'GET'
      gets[#gets + 1] = 'u1'
      gets[#gets + 1] = asked
    end
    for i, bit in ipairs(redis.call('BITFIELD_RO', b.keys.done, unpack(gets))) do
      b.rows[b.asked[i]].recorded = bit == 1
    end
  end
  if row.recorded then
    return reply.recorded
  end
  if whole(row.deliveries) ~= tonumber(delivery) then
    return reply.superseded
  end
end

-- attempt calls a function. It returns the function's result, or the text of its error and true.
local function attempt(...)
  local ok, result = pcall(...)
  if ok then
    return result
  end
  return type(result) == 'table' and result.err or tostring(result), true
end

-- each calls a function with each row of the call, its batch and its number, from 1. It returns a
-- list of what the function returns for the rows. If the function fails for a row, the list has the
-- text of the error instead.
local function each(do_row)
  local replies = {}
  for n, row in ipairs(rows) do
    replies[n] = attempt(function() return do_row(row, batch(row.batch), n) end)
  end
  return replies
end
