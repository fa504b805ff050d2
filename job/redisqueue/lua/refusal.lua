-- refusal returns the reason why a write about a row is refused: -1 if the batch is unknown, -2 if it is cancelled, -3 if the row is of
-- another file, -5 if the file has no such line, 0 if the row is recorded, -4 if the row was taken from this delivery. It returns nil if
-- the write is allowed. file is a FileID, or '' for any file.
local function refusal(meta, done, deliveries, line, delivery, file)
  local is = redis.call('HMGET', meta, 'created_ms', 'cancelled_ms', 'file_sha256', 'lines')
  if not is[1] then
    return -1
  end
  if is[2] then
    return -2
  end
  if file ~= '' and is[3] and is[3] ~= '' and string.sub(is[3], 1, #file) ~= file then
    return -3
  end
  if is[4] and tonumber(line) > tonumber(is[4]) then
    return -5
  end
  if redis.call('GETBIT', done, line) == 1 then
    return 0
  end
  if tonumber(redis.call('HGET', deliveries, line) or 0) ~= tonumber(delivery) then
    return -4
  end
end
