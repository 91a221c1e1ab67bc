-- KEYS: the record. ARGV: owner, fence, lease in us, lease in ms.
local state, owner, fence = unpack(redis.call('HMGET', KEYS[1], 's', 'o', 'f'))
if owner ~= ARGV[1] or fence ~= ARGV[2] then
  return 'fenced'
elseif state ~= 'started' then
  return 'ended'
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'x', string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[3]))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
return 'extended'
