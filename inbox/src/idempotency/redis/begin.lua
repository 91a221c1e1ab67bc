-- KEYS: the record. ARGV: owner, fingerprint, lease in us, time to keep in ms.
-- Fields: s state, o owner, f fence, n attempts, h fingerprint, x end of the lease in us since 1970, a answer.
local state, fingerprint, owner, fence, attempts, lease_end, answer =
  unpack(redis.call('HMGET', KEYS[1], 's', 'h', 'o', 'f', 'n', 'x', 'a'))
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if not state then
  fence, attempts = now, 1
elseif fingerprint ~= ARGV[2] then
  return {'mismatch'}
elseif state == 'completed' or state == 'failed' then
  return {state, answer}
elseif state == 'started' and owner == ARGV[1] then
  fence, attempts = tonumber(fence), tonumber(attempts)
elseif state == 'started' and now < tonumber(lease_end) then
  return {'started', tonumber(lease_end) - now}
else
  fence, attempts = math.max(now, fence + 1), attempts + 1
end
redis.call('HSET', KEYS[1], 's', 'started', 'o', ARGV[1], 'f', string.format('%.0f', fence), 'n', attempts,
  'h', ARGV[2], 'x', string.format('%.0f', now + ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'run', fence, attempts}
