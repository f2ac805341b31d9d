"""What runs on the server: Lua scripts, each atomic and one round trip. No module is needed.

Numbers in Lua are doubles, so hashes have 44 bits and fingerprints come as halves of 32.
"""

# KEYS[1]: a shard of URLs, a hash of `slices` and `newest` (keys in the newest slice). With a time
# to live each PART of it has a hash and slices of its own, named by when it was; PARTS of them are
# asked, and the server drops them when the last has gone by.
# ARGV: two hashes a key. Answer: for each key, whether it was there.
_SLICES = """
local slices, PART_MS, PARTS = {%s}, %d, 8
local now, part, base, n_slices = 0, 0, KEYS[1], 0
if PART_MS > 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  part = math.floor(now / PART_MS)
end

local function open(age)
  if PART_MS > 0 then base = KEYS[1] .. ':t' .. string.format('%%.0f', part - age) end
  n_slices = tonumber(redis.call('HGET', base, 'slices') or '0')
end
local function let_go(key)
  if PART_MS > 0 then redis.call('PEXPIRE', key, (part + PARTS) * PART_MS - now) end
end

local function bit_of(slice, i, n)
  return (ARGV[i] + n * ARGV[i + 1]) %% slices[slice][1]
end

local function holds(slice, i)
  for n = 0, slices[slice][2] - 1 do
    if redis.call('GETBIT', base .. ':' .. slice, bit_of(slice, i, n)) == 0 then
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
for age = 0, PART_MS > 0 and PARTS - 1 or 0 do
  open(age)
  for i = 1, #ARGV, 2 do
    local n = (i + 1) / 2
    if answers[n] ~= 1 then answers[n] = seen(i) end
  end
end
return answers
"""
)

# ARGV: two hashes a key, then Q:heard of frontier_scripts.py, a worker, and the number of the last
# call that it was answered: a server that has forgotten it may have lost what was found on the
# page. The worker is '' where nothing waits in a queue. Answer 2: every slice that may be is full,
# 3: that call is forgotten; the key was not added.
MARK = (
    _SLICES
    + """
open(0)
local n_keys = tonumber(redis.call('HGET', base, 'newest') or '0')

local function grow()
  if n_slices == #slices then return false end
  n_slices, n_keys = n_slices + 1, 0
  -- There is one if the server evicted the hash: with twice the keys its error rate would not hold.
  local slice = base .. ':' .. n_slices
  if redis.call('EXISTS', slice) == 1 then redis.call('DEL', slice) end
  redis.call('SETBIT', slice, slices[n_slices][1] - 1, 0)
  redis.call('HSET', base, 'slices', n_slices)
  let_go(slice)
  return true
end

local function is_behind(heard, worker, number)
  return worker ~= '' and tonumber(redis.call('HGET', heard, worker) or '0') < tonumber(number)
end

local function mark(i)
  if is_behind(ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]) then return 3 end
  if seen(i) == 1 then return 1 end
  if (n_slices == 0 or n_keys >= slices[n_slices][3]) and not grow() then return 2 end
  local bits = {}
  for n = 0, slices[n_slices][2] - 1 do
    local at = 4 * n
    bits[at + 1], bits[at + 2], bits[at + 3], bits[at + 4] = 'SET', 'u1', bit_of(n_slices, i, n), 1
  end
  redis.call('BITFIELD', base .. ':' .. n_slices, unpack(bits))
  n_keys = n_keys + 1
  return 0
end
for i = 1, #ARGV, 5 do answers[#answers + 1] = mark(i) end
redis.call('HSET', base, 'newest', n_keys)
let_go(base)
return answers
"""
)

# KEYS[1]: a shard of a site's pages, a hash id -> page: 'u', stamp (2-9), fingerprint (10-17, least
# byte first), ... time (26-33), indexed (34), ... digest (36-51), fingerprint of its own part
# (52-59). Beside it: ...:open, ids of pages of which no item is kept yet, '' so that it is never
# empty, and SEALED once the shard is full, which nothing enters after that: without this set (a
# server may evict it) nobody knows which pages were kept, and all are forgotten; ...:short, digest
# -> id of pages that are not indexed; ...:fresh, the newest entries of fingerprint and id, all
# looked through, two of a page whose own part has another fingerprint; and for each block of a
# fingerprint a tree of the older entries:
#
#     level 1       by the bits of the block
#     level 2       by those of the next one, too
#     level 3       by the same: what found no room at level 2
#     level 4, ...  by those of the block after that, too, some three of them at each level
#
# ...:l:LEVEL is a hash of all trees' nodes of a level, so that one command reads what a look-up
# wants of it, and one writes what comes to a tree. A node has up to FULL / ENTRY entries; what
# comes then goes to nodes of the next level, and from the last one to ...:o:NODE. No entry moves
# from where it was written, so no write grows with the site. A node that is full stays so, or what
# is below would not be found: a blank takes the place of an entry that goes.
#
# Which nodes to look through: write x1, x2, ... for the bits in which two fingerprints differ in
# each block. Their sum is less than the number of blocks, so there is a block from which on, in a
# circle, x1 = 0, x1 + x2 <= 1, x1 + x2 + x3 <= 2, ... (the cycle lemma of Dvoretzky and Motzkin).
_PAGES = """
local DISTANCE, BLOCKS, LIMIT, TTL_MS, MOST_PAGES = %d, %d, %d, %d, %d
local ENTRY, FRESH, FULL = 14, 14 * 64, 14 * 6
local site, short, fresh = KEYS[1], KEYS[1] .. ':short', KEYS[1] .. ':fresh'
local undecided = KEYS[1] .. ':open'
-- Only what is there: a full server asks no more for memory in a script that has written.
if redis.call('EXISTS', undecided) == 0 and redis.call('EXISTS', site) == 1 then
  redis.call('DEL', site)
end
local band, bor, bxor = bit.band, bit.bor, bit.bxor
local lshift, rshift, sub = bit.lshift, bit.rshift, string.sub

local function stamp_of(page) return sub(page, 2, 9) end
local function worker_of(page) return sub(page, 2, 5) end
local function is_indexed(page) return sub(page, 34, 34) ~= '\\0' end

local function entries_of(id, page)
  local whole, own = sub(page, 10, 17), sub(page, 52, 59)
  if whole == own then return {string.reverse(whole) .. id} end
  return {string.reverse(whole) .. id, string.reverse(own) .. id}
end

-- The blocks of an entry's fingerprint, of at most 16 bits, and how many bits each has.
local widths = {}
for n = 0, BLOCKS - 1 do
  widths[n] = math.min(16, math.floor(64 * (n + 1) / BLOCKS) - math.floor(64 * n / BLOCKS))
end
local function blocks_of(entry)
  local high, low = struct.unpack('>I4I4', entry)
  local blocks = {}
  for n = 0, BLOCKS - 1 do
    local from = math.floor(64 * n / BLOCKS)
    local bits = rshift(high, from - 32)
    if from < 32 then
      bits = rshift(low, from)
      if from + widths[n] > 32 then bits = bor(bits, lshift(high, 32 - from)) end
    end
    blocks[n] = band(bits, 2 ^ widths[n] - 1)
  end
  return blocks
end

local PIECES = math.max(1, math.floor(math.min(16, 64 / BLOCKS) / 3))
local DEPTH = BLOCKS < 3 and BLOCKS or 3 + PIECES
local BLANK = string.rep('\\0', ENTRY)

-- By which bits of an entry tree n goes on at a level: how many, and these.
local function bits_at(level, n, blocks)
  if level == 3 then return 0, 0 end
  local block = (n + math.min(level - 1, 2)) %% BLOCKS
  if level < 3 then return widths[block], blocks[block] end
  local from = math.floor(widths[block] * (level - 4) / PIECES)
  local width = math.floor(widths[block] * (level - 3) / PIECES) - from
  return width, band(rshift(blocks[block], from), 2 ^ width - 1)
end

-- A node is named by the way there: what a level adds to its field in the hash of the level.
local function step(level, n, bits)
  if level == 1 then return struct.pack(BLOCKS < 5 and '>I3' or '>I2', bits * BLOCKS + n) end
  if level == 2 then return struct.pack('>I2', bits) end
  return level == 3 and '' or string.char(bits)
end
local function step_of(level, n, blocks)
  local _, bits = bits_at(level, n, blocks)
  return step(level, n, bits)
end
local function nodes_of(level) return site .. ':l:' .. level end
local function overflow(node)
  return site .. ':o:' .. string.gsub(node, '.', function(char)
    return string.format('%%02x', string.byte(char))
  end)
end

local function without(entries, entry)
  for at = 1, #entries, ENTRY do
    if sub(entries, at, at + ENTRY - 1) == entry then
      return sub(entries, 1, at - 1) .. sub(entries, at + ENTRY)
    end
  end
end

local function remove_from(n, blocks, entry)
  local node = ''
  for level = 1, DEPTH do
    node = node .. step_of(level, n, blocks)
    local held = redis.call('HGET', nodes_of(level), node) or ''
    local rest = without(held, entry)
    if rest and #held == FULL then rest = rest .. BLANK end
    if rest == '' then return redis.call('HDEL', nodes_of(level), node) end
    if rest then return redis.call('HSET', nodes_of(level), node, rest) end
    if #held < FULL then return end
  end
  local rest = without(redis.call('GET', overflow(node)) or '', entry)
  if rest then redis.call('SET', overflow(node), rest) end
end

local function remove_entry(entry)
  local rest = without(redis.call('GET', fresh) or '', entry)
  if rest == '' then redis.call('DEL', fresh) elseif rest then redis.call('SET', fresh, rest) end
  if rest then return end
  local blocks = blocks_of(entry)
  for n = 0, BLOCKS - 1 do remove_from(n, blocks, entry) end
end

local function remove(id, page)
  redis.call('HDEL', site, id)
  redis.call('SREM', undecided, id)
  if is_indexed(page) then
    for _, entry in ipairs(entries_of(id, page)) do remove_entry(entry) end
    return
  end
  local digest = sub(page, 36, 51)
  if redis.call('HGET', short, digest) == id then redis.call('HDEL', short, digest) end
end

-- 'u' until an item of the page is kept, then 'k'.
local function status_of(id)
  return redis.call('SISMEMBER', undecided, id) == 1 and 'u' or 'k'
end

local function page_of(id, stamp)
  local page = redis.call('HGET', site, id)
  return page and stamp_of(page) == stamp and page
end
"""

# ARGV: id, page, then stamps of pages that were compared already. An id is a URL's. A page that is
# not indexed repeats others exactly or not at all. Its own worker has compared it with all that it
# brought itself; of these only the page of its URL is offered, whose place it takes.
_FIND = (
    _PAGES
    + """
local MOST, SEALED = 1000, 's' -- shorter than an id
local id, page = ARGV[1], ARGV[2]
local earlier = redis.call('HGET', site, id)

local compared, looked_at, found, over = {}, {}, {1}, {}
for i = 3, #ARGV do compared[ARGV[i]] = true end
local oldest = TTL_MS > 0 and redis.call('TIME')[1] - TTL_MS / 1000

local function offer(other)
  if not other or looked_at[other] or #found > MOST then return end
  looked_at[other] = true
  local its = redis.call('HGET', site, other)
  if not its or compared[stamp_of(its)] then return end
  if oldest and struct.unpack('<d', its, 26) < oldest then
    over[other] = its
    return
  end
  if other ~= id and worker_of(its) == worker_of(page) then return end
  found[#found + 1] = status_of(other) .. sub(its, 2)
end

-- How many bits are set, of numbers of 11 bits; and of 32. Arithmetic takes less time than `bit`.
local ONES = {[0] = 0, """
    + ", ".join(str(n.bit_count()) for n in range(1, 1 << 11))
    + """}
local function ones(v)
  local first = v %% 2048
  v = (v - first) / 2048
  local second = v %% 2048
  return ONES[first] + ONES[second] + ONES[(v - second) / 2048 %% 1024]
end

local function offer_near(entries, high, low)
  local ONES, bxor, unpack_of = ONES, bxor, struct.unpack
  for at = 1, #entries, ENTRY do
    local v = bxor(high, (unpack_of('>I4', entries, at)))
    local first = v %% 2048 -- ones(), written out: the call would take as long as the count
    v = (v - first) / 2048
    local second = v %% 2048
    local bits = ONES[first] + ONES[second] + ONES[(v - second) / 2048 %% 1024]
    if bits <= DISTANCE then
      bits = bits + ones(bxor(low, (unpack_of('>I4', entries, at + 4))))
      if bits <= DISTANCE then offer(sub(entries, at + 8, at + ENTRY - 1)) end
    end
  end
end

-- Numbers of so many bits of which at most two are set, those with fewer first; and how many of
-- them have at most 0, 1, 2.
local masks_of = setmetatable({}, {__index = function(all, width)
  local masks = {0}
  for i = 0, width - 1 do masks[#masks + 1] = lshift(1, i) end
  for i = 1, width - 1 do
    for k = 0, i - 1 do masks[#masks + 1] = lshift(1, i) + lshift(1, k) end
  end
  all[width] = {masks, {[0] = 1, 1 + width, #masks}}
  return all[width]
end})

-- Nodes of a level that may hold what is near, below full ones of the level above: trees, fields,
-- the bits in which the way there differs.
local function nodes_below(above, level, blocks)
  local most = level > 3 and 2 or level > 1 and 1 or 0
  local trees, fields, differing, found, steps, up_to = {}, {}, {}, 0, {}, {}
  for n = 0, BLOCKS - 1 do
    local width, own = bits_at(level, n, blocks)
    local masks = masks_of[width]
    steps[n], up_to[n] = {}, masks[2]
    for k = 1, up_to[n][most] do steps[n][k] = step(level, n, bxor(own, masks[1][k])) end
  end
  for i, n in ipairs(above.trees) do
    local node, before, steps, up_to = above.fields[i], above.differing[i], steps[n], up_to[n]
    for more = 0, most - before do
      for k = 1 + (up_to[more - 1] or 0), up_to[more] do
        found = found + 1
        trees[found], fields[found], differing[found] = n, node .. steps[k], before + more
      end
    end
  end
  return {trees = trees, fields = fields, differing = differing}
end

-- Whether there were not too many entries to look through.
local function look_through(entry)
  local blocks, lists = blocks_of(entry), {redis.call('GET', fresh) or ''}
  local n_bytes = #lists[1]
  local function look_at(entries)
    lists[#lists + 1] = entries
    n_bytes = n_bytes + #entries
  end

  local full = {trees = {}, fields = {}, differing = {}}
  local function go_on(n, node, differing)
    local at = #full.trees + 1
    full.trees[at], full.fields[at], full.differing[at] = n, node, differing
  end
  for n = 0, BLOCKS - 1 do go_on(n, '', 0) end
  for level = 1, DEPTH do
    local some = nodes_below(full, level, blocks)
    if #some.fields == 0 then break end
    full = {trees = {}, fields = {}, differing = {}}
    for i, held in ipairs(redis.call('HMGET', nodes_of(level), unpack(some.fields))) do
      if held then look_at(held) end
      if held and #held == FULL then go_on(some.trees[i], some.fields[i], some.differing[i]) end
    end
    if n_bytes > LIMIT * ENTRY then return false end
  end
  for _, node in ipairs(full.fields) do
    look_at(redis.call('GET', overflow(node)) or '')
    if n_bytes > LIMIT * ENTRY then return false end
  end
  local high, low = struct.unpack('>I4I4', entry)
  for _, entries in ipairs(lists) do offer_near(entries, high, low) end
  return true
end

local complete = true
local function look()
  if earlier then offer(id) end
  offer(redis.call('HGET', short, sub(page, 36, 51)))
  for _, entry in ipairs(is_indexed(page) and entries_of(id, page) or {}) do
    complete = complete and look_through(entry)
  end
end

local function is_sealed() return redis.call('SISMEMBER', undecided, SEALED) == 1 end
-- Not all at once, which could take longer than a worker waits: what stays is removed by later
-- look-ups, and none is given it.
local function remove_old()
  local room = 50
  for other, its in pairs(over) do
    if room == 0 then return end
    remove(other, its)
    room = room - 1
  end
end
"""
)

# Of a sealed shard. Answer: {1, page, ...} to be compared with, {2} too many entries, {3} the shard
# is not sealed: what is not there may come the next moment.
LOOK = (
    _FIND
    + """
if not is_sealed() then return {3} end
look()
if #found > 1 then return found end
remove_old()
return {complete and 1 or 2}
"""
)

# Answer: {0} admitted, {1, page, ...} to be compared first, {2} too many entries: admitted, but not
# indexed; of a sealed shard, {4} not admitted, {5} nor were all entries looked through.
ADMIT = (
    _FIND
    + """
if earlier and stamp_of(earlier) == stamp_of(page) then return {0} end

-- Adds rows to nodes of tree n at a level. Those that find no room go to the next one.
local function insert(n, level, rows)
  if #rows == 0 then return end
  local fields, coming, told, deeper = {}, {}, {}, {}
  for _, row in ipairs(rows) do
    row.node = row.node .. step_of(level, n, row.blocks)
    if not coming[row.node] then fields[#fields + 1], coming[row.node] = row.node, {} end
    table.insert(coming[row.node], row)
  end
  for i, held in ipairs(redis.call('HMGET', nodes_of(level), unpack(fields))) do
    local before = held or ''
    local now = before
    for _, row in ipairs(coming[fields[i]]) do
      local room = #now < FULL and now or without(now, BLANK)
      if room then now = room .. row.entry else deeper[#deeper + 1] = row end
    end
    if now ~= before then told[#told + 1], told[#told + 2] = fields[i], now end
  end
  if #told > 0 then redis.call('HSET', nodes_of(level), unpack(told)) end
  if level < DEPTH then return insert(n, level + 1, deeper) end
  for _, row in ipairs(deeper) do redis.call('APPEND', overflow(row.node), row.entry) end
end

local function remember_entries(entries)
  local added = table.concat(entries)
  if redis.call('APPEND', fresh, added) <= FRESH then return end
  local newest, rows = redis.call('GET', fresh), {}
  for at = 1, #newest - #added, ENTRY do
    local entry = sub(newest, at, at + ENTRY - 1)
    rows[#rows + 1] = {entry = entry, blocks = blocks_of(entry)}
  end
  for n = 0, BLOCKS - 1 do
    for _, row in ipairs(rows) do row.node = '' end
    insert(n, 1, rows)
  end
  redis.call('SET', fresh, added)
end

look()
if #found > 1 then return found end
local sealed = is_sealed()
if not sealed and not earlier and redis.call('HLEN', site) >= MOST_PAGES then
  redis.call('SADD', undecided, SEALED)
  sealed = true
end
if sealed then
  remove_old()
  return {complete and 4 or 5}
end

if not complete then page = sub(page, 1, 33) .. '\\0' .. sub(page, 35) end
if earlier then remove(id, earlier) end
over[id] = nil
redis.call('HSET', site, id, page)
redis.call('SADD', undecided, '', id)
if is_indexed(page) then
  remember_entries(entries_of(id, page))
else
  redis.call('HSET', short, sub(page, 36, 51), id)
end
remove_old() -- last: a full server refuses the first
return {complete and 0 or 2}
"""
)

# ARGV: id, stamp. Answer: whether the page was there.
KEEP = (
    _PAGES
    + """
if not page_of(ARGV[1], ARGV[2]) then return 0 end
redis.call('SREM', undecided, ARGV[1])
return 1
"""
)

# ARGV: id, stamp. Answer: whether the page was there.
FORGET = (
    _PAGES
    + """
local page = page_of(ARGV[1], ARGV[2])
if not page then return 0 end
remove(ARGV[1], page)
return 1
"""
)

# ARGV: id, stamp. Answer: 'u', 'k', or nothing where the page was forgotten.
STATUS = (
    _PAGES
    + """
return page_of(ARGV[1], ARGV[2]) and status_of(ARGV[1])
"""
)

# KEYS[1]: the fleet, a hash of secret, identity and epoch. Answer: all three, or nothing.
FLEET = """
local epoch = redis.call('HGET', KEYS[1], 'epoch')
return epoch and {
  redis.call('HGET', KEYS[1], 'secret'), redis.call('HGET', KEYS[1], 'identity'), epoch}
"""

# ARGV: the same three, written if there is no fleet. Answer: what is there then.
JOIN = """
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'secret', ARGV[1], 'identity', ARGV[2], 'epoch', ARGV[3])
end
return {redis.call('HGET', KEYS[1], 'secret'), redis.call('HGET', KEYS[1], 'identity'),
  redis.call('HGET', KEYS[1], 'epoch')}
"""

# KEYS[1]: a worker's sign of life. ARGV: for how many milliseconds it holds; the fleet; how its
# epoch begins; the workers of the shared frontier; the worker; the key of the time since which it
# has held its lease, and for how many milliseconds that is known. Answer: the epoch, and the
# identity if it begins otherwise. A server that is full renews a sign of life, and is heard in any
# case.
BEAT = """
local time, now = redis.pcall('TIME')
if time[1] then
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.pcall('ZADD', ARGV[4], 'XX', now + ARGV[1], ARGV[5])
end
if redis.pcall('PEXPIRE', KEYS[1], ARGV[1]) ~= 1 then
  redis.pcall('SET', KEYS[1], '', 'PX', ARGV[1])
  if now then redis.pcall('SET', ARGV[6], string.format('%.0f', now), 'PX', ARGV[7]) end
end
local epoch = redis.call('HGET', ARGV[2], 'epoch') or ''
if string.sub(epoch, 1, #ARGV[3]) == ARGV[3] then return {epoch, ''} end
return {epoch, redis.call('HGET', ARGV[2], 'identity') or ''}
"""

# KEYS[1]: a hash of the rules that workers learnt, by name, each behind how sure it is, and of how
# often it was changed. ARGV: up to what change a worker has heard, and three for each rule that it
# tells: name, how sure, the rule. Answer: the number of changes, and all rules where it is another.
RULES = """
local changes = tonumber(redis.call('HGET', KEYS[1], '') or '0')
for i = 2, #ARGV, 3 do
  local known = redis.call('HGET', KEYS[1], ARGV[i])
  local sure = known and tonumber(string.match(known, '^%d+')) or 0
  if tonumber(ARGV[i + 1]) > sure and (known or redis.call('HLEN', KEYS[1]) < 10000) then
    changes = redis.call('HINCRBY', KEYS[1], '', 1)
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1] .. ' ' .. ARGV[i + 2])
  end
end
if changes == tonumber(ARGV[1]) then return {changes, {}} end
return {changes, redis.call('HVALS', KEYS[1])}
"""

IS_ALIVE = "return redis.call('EXISTS', KEYS[1])"

# KEYS[1]: what was learnt of a site's templates, the number of pages first.
TEMPLATES = "return redis.call('GET', KEYS[1])"

# ARGV: the same, kept if it comes of more pages.
TEACH = """
local known = redis.call('GET', KEYS[1])
if known and struct.unpack('<I4', known) >= struct.unpack('<I4', ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""

# KEYS[1]: a set of what was kept of the items of a page and of its copies. ARGV: one of them.
# Answer: whether there was room for it. With a time to live all go when the first one's is over.
KEEP_ITEM = """
local n, TTL_MS = redis.call('SCARD', KEYS[1]), %d
if n >= 10000 then return 0 end
redis.call('SADD', KEYS[1], ARGV[1])
if n == 0 and TTL_MS > 0 then redis.call('PEXPIRE', KEYS[1], TTL_MS) end
return 1
"""

# Of a page with more items some: those that are not told are taken for new.
ITEMS = "return redis.call('SRANDMEMBER', KEYS[1], 1000)"
