"""What runs on the server: Lua scripts, each atomic and one round trip. No module is needed.

Numbers in Lua are doubles, so hashes have 44 bits and fingerprints come as halves of 32.
"""

# KEYS[1]: a shard of URLs, a hash of `slices` and `newest` (keys in the newest slice).
# ARGV: two hashes a key. Answer: for each key, whether it was there.
_SLICES = """
local shapes = {%s}
local n_slices = tonumber(redis.call('HGET', KEYS[1], 'slices') or '0')

local function bit_of(slice, i, n)
  return (ARGV[i] + n * ARGV[i + 1]) %% shapes[slice][1]
end

local function holds(slice, i)
  for n = 0, shapes[slice][2] - 1 do
    if redis.call('GETBIT', KEYS[1] .. ':' .. slice, bit_of(slice, i, n)) == 0 then
      return false
    end
  end
  return true
end

local function seen(i)
  for slice = n_slices, 1, -1 do
    if holds(slice, i) then return 1 end
  end
  return 0
end
local answers = {}
"""

SEEN = (
    _SLICES
    + """
for i = 1, #ARGV, 2 do answers[#answers + 1] = seen(i) end
return answers
"""
)

# Answer 2: every slice that may be is full, the key was not added.
MARK = (
    _SLICES
    + """
local n_keys = tonumber(redis.call('HGET', KEYS[1], 'newest') or '0')

local function grow()
  if n_slices == #shapes then return false end
  n_slices, n_keys = n_slices + 1, 0
  redis.call('SETBIT', KEYS[1] .. ':' .. n_slices, shapes[n_slices][1] - 1, 0)
  redis.call('HSET', KEYS[1], 'slices', n_slices)
  return true
end

local function mark(i)
  if seen(i) == 1 then return 1 end
  if (n_slices == 0 or n_keys >= shapes[n_slices][3]) and not grow() then return 2 end
  for n = 0, shapes[n_slices][2] - 1 do
    redis.call('SETBIT', KEYS[1] .. ':' .. n_slices, bit_of(n_slices, i, n), 1)
  end
  n_keys = n_keys + 1
  return 0
end
for i = 1, #ARGV, 2 do answers[#answers + 1] = mark(i) end
redis.call('HSET', KEYS[1], 'newest', n_keys)
return answers
"""
)

# KEYS[1]: a site's pages, a hash id -> status ('u' until an item is kept, then 'k') and record.
# Beside it: …:d, digest -> id; …:u, URL -> id; …:b:N:BITS, entries of fingerprint and id.
# ARGV: id, digest, URL, record, fingerprint, distance, most entries, number of blocks, the
# blocks, then ids of pages that were compared already. Without blocks only exact repeats count.
# Answer: {0} admitted, {1, id, record, …} to be compared first, {2} too many entries.
ADMIT = """
local id, digest, url, record, fingerprint = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local distance, limit, n_blocks = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
if redis.call('HEXISTS', KEYS[1], id) == 1 then return {0} end

local compared, found = {}, {1}
for i = 9 + n_blocks, #ARGV do compared[ARGV[i]] = true end

local function offer(other)
  if not other or compared[other] then return end
  compared[other] = true
  local page = redis.call('HGET', KEYS[1], other)
  if page then
    found[#found + 1] = other
    found[#found + 1] = page
  end
end

local band, shift = bit.band, bit.rshift
local function ones(v)
  v = v - band(shift(v, 1), 0x55555555)
  v = band(v, 0x33333333) + band(shift(v, 2), 0x33333333)
  v = band(v + shift(v, 4), 0x0f0f0f0f)
  v = v + shift(v, 8)
  return band(v + shift(v, 16), 0x3f)
end

offer(redis.call('HGET', KEYS[1] .. ':d', digest))
offer(redis.call('HGET', KEYS[1] .. ':u', url))
local high, low = struct.unpack('>I4I4', fingerprint)
local n_entries = 0
for block = 1, n_blocks do
  local entries = redis.call('GET', KEYS[1] .. ':b:' .. block .. ':' .. ARGV[8 + block]) or ''
  n_entries = n_entries + #entries / 16
  if n_entries > limit then return {2} end
  for at = 1, #entries, 16 do
    local other_high, other_low = struct.unpack('>I4I4', entries, at)
    local bits = ones(bit.bxor(high, other_high))
    if bits <= distance and bits + ones(bit.bxor(low, other_low)) <= distance then
      offer(string.sub(entries, at + 8, at + 15))
    end
  end
end
if #found > 1 then return found end

redis.call('HSET', KEYS[1], id, 'u' .. record)
redis.call('HSET', KEYS[1] .. ':d', digest, id)
redis.call('HSET', KEYS[1] .. ':u', url, id)
for block = 1, n_blocks do
  redis.call('APPEND', KEYS[1] .. ':b:' .. block .. ':' .. ARGV[8 + block], fingerprint .. id)
end
return {0}
"""

# ARGV: id. Answer: whether the page was there.
KEEP = """
local page = redis.call('HGET', KEYS[1], ARGV[1])
if not page then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], 'k' .. string.sub(page, 2))
return 1
"""

# ARGV: id, digest, URL, then the blocks.
FORGET = """
local id = ARGV[1]
redis.call('HDEL', KEYS[1], id)
for i, table in ipairs({':d', ':u'}) do
  if redis.call('HGET', KEYS[1] .. table, ARGV[1 + i]) == id then
    redis.call('HDEL', KEYS[1] .. table, ARGV[1 + i])
  end
end
for block = 1, #ARGV - 3 do
  local key = KEYS[1] .. ':b:' .. block .. ':' .. ARGV[3 + block]
  local entries = redis.call('GET', key) or ''
  for at = 1, #entries, 16 do
    if string.sub(entries, at + 8, at + 15) == id then
      local rest = string.sub(entries, 1, at - 1) .. string.sub(entries, at + 16)
      if rest == '' then redis.call('DEL', key) else redis.call('SET', key, rest) end
      break
    end
  end
end
return 1
"""

# ARGV: id. Answer: 'u', 'k', or nothing where the page was forgotten.
STATUS = """
local page = redis.call('HGET', KEYS[1], ARGV[1])
return page and string.sub(page, 1, 1)
"""
