-- page: the application that bench/web99 asks: a file in a page, with an advertisement worked into it, and a log
-- of posts
--
-- GET page.lua?/dirNNNNN/classX_Y        the file in a page
--   with my_cookie=user_id=U&last_ad=A   an advertisement is chosen, its path is put into the file's marker
-- POST page.lua                          a record in the log, and the file in a page
-- GET page.lua?command/Reset&...         new tables, an empty log
-- GET page.lua?command/Fetch&from=N&count=M

local db, site, time = posthouse.db, posthouse.site, posthouse.time

local ADS, USER_OFFSET = 360, 10000
local MARKER, PATH_LENGTH = "@ad:", 17
-- Gender, age, region and two interests, as bits of a mask.
local FIELDS = { { 28, 2 }, { 24, 4 }, { 20, 4 }, { 10, 10 }, { 0, 10 } }

-- -- tables: made at a reset, kept in the database, held in memory until there are new ones ------------------

-- The same steps as in bench/web99.c.
local function new_steps()
  local state = 1
  return function(n)
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return (state >> 8) % n
  end
end

-- Fixed records: users have 15 bytes (id, mask), advertisements 39 (id, mask, weights, minimum, expiry).
local function make_tables(n_users, now)
  local below = new_steps()
  local users, ads = {}, {}
  for id = 0, n_users - 1 do
    local mask = 0
    for _, field in ipairs(FIELDS) do mask = mask | 1 << (field[1] + below(field[2])) end
    users[#users + 1] = ("%5d %08X\n"):format(id, mask)
  end
  for id = 0, ADS - 1 do
    local mask, weights = 0, 0
    for _, field in ipairs(FIELDS) do
      for _ = 1, 1 + below(3) do mask = mask | 1 << (field[1] + below(field[2])) end
    end
    for _ = 1, 5 do weights = weights << 4 | below(16) end
    local minimum = 20 + below(20)
    local expired = below(20) == 0
    local expiry = expired and now - 600 or now + 600 + below(86400 - 600)
    ads[#ads + 1] = ("%5d %08X %05X %6d %10d\n"):format(id, mask, weights, minimum, expiry)
  end
  return table.concat(users), table.concat(ads)
end

local tables = { version = 0, looked = 0 }

local function parse_tables(row)
  local users, ads = {}, {}
  for record in row.users:gmatch("[^\n]+") do users[#users + 1] = tonumber(record:sub(7, 14), 16) end
  for record in row.ads:gmatch("[^\n]+") do
    local _, mask, weights, minimum, expiry = record:match("(%d+) +(%x+) +(%x+) +(%d+) +(%d+)")
    weights = tonumber(weights, 16)
    ads[#ads + 1] = { mask = tonumber(mask, 16), minimum = tonumber(minimum), expiry = tonumber(expiry),
      weights >> 16 & 15, weights >> 12 & 15, weights >> 8 & 15, weights >> 4 & 15, weights & 15 }
  end
  return users, ads
end

-- Once a second it is asked whether there are others.
local function current_tables()
  local now = time.now()
  if now - tables.looked < 1 then return tables end
  local row = db.query("SELECT version FROM web99_tables")[1]
  if row.version ~= tables.version then
    row = db.query("SELECT version, users, ads FROM web99_tables")[1]
    tables.users, tables.ads = parse_tables(row)
    tables.version = row.version
  end
  tables.looked = now
  return tables
end

local function reset(n_users, now)
  local users, ads = make_tables(n_users, now)
  db.exec [[
    CREATE TABLE IF NOT EXISTS web99_tables (version bigint NOT NULL, users text NOT NULL, ads text NOT NULL)]]
  db.exec [[
    CREATE TABLE IF NOT EXISTS web99_posts (
      number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint NOT NULL, directory int NOT NULL,
      class int NOT NULL, file int NOT NULL, client bigint NOT NULL, name text NOT NULL, login bigint NOT NULL)]]
  db.transaction(function()
    local row = db.query("DELETE FROM web99_tables RETURNING version")[1]
    db.exec("DELETE FROM web99_posts")
    db.exec("INSERT INTO web99_tables (version, users, ads) VALUES ($1, $2, $3)", (row and row.version or 0) + 1,
      users, ads)
  end)
  return "reset\n"
end

-- -- advertisements ------------------------------------------------------------------------------------------

local BITS = {}
for i, field in ipairs(FIELDS) do BITS[i] = (1 << field[2]) - 1 << field[1] end

local function weight_of(ad, mask)
  local common, sum = ad.mask & mask, 0
  for i = 1, 5 do
    if common & BITS[i] ~= 0 then sum = sum + ad[i] end
  end
  return sum
end

-- The next one after `last` that suits the user: its number, its weight, and 1 when its time is over.
local function choose_ad(user, last)
  local current = current_tables()
  local mask = current.users[user + 1]
  if not mask or not last or last < 0 or last >= ADS then return -1, 0, 1 end
  local n = last
  repeat
    n = (n + 1) % ADS
    local ad = current.ads[n + 1]
    local weight = weight_of(ad, mask)
    if weight >= ad.minimum or n == last then
      return n, weight, time.now() > ad.expiry and 1 or 0
    end
  until false
end

local function path_of_ad(ad)
  return ("dir%05d/class%d_%d"):format(ad // 36, ad % 36 // 9, ad % 9)
end

local function put_ad(text, ad)
  local parts, from = {}, 1
  while true do
    local at = text:find(MARKER, from, true)
    if not at then break end
    parts[#parts + 1] = text:sub(from, at + #MARKER - 1)
    parts[#parts + 1] = path_of_ad(ad)
    from = at + #MARKER + PATH_LENGTH
  end
  parts[#parts + 1] = text:sub(from)
  return table.concat(parts)
end

-- -- pages ---------------------------------------------------------------------------------------------------

local function page(req, query, text)
  return table.concat { "<html><head><title>web99-like page</title></head><body>\n<p>Server: Posthouse</p>\n<p>Client: ",
    req.peer.ip, "</p>\n<p>Script: ", req.path, "</p>\n<p>Query: ", query, "</p>\n<pre>\n", text, "</pre>\n</body></html>\n" }
end

-- A file of the set, by what was asked for; nil when there is none.
local function read_file(name)
  return name:match("^/dir%d%d%d%d%d/class[0-3]_[0-8]$") and site.read(name)
end

local function missing(res)
  res.status = 404
  return "There is no such file.\n"
end

local function answer_get(req, res, query)
  local text = read_file(query)
  if not text then return missing(res) end
  local cookie = req.cookies.my_cookie
  if cookie then
    local user, last = cookie:match("^user_id=(%d+)&last_ad=(%d+)$")
    local ad, weight, expired = choose_ad((tonumber(user) or 0) - USER_OFFSET, tonumber(last))
    res:header("Set-Cookie", ("found_cookie=Ad_id=%d&Ad_weight=%d&Expired=%d"):format(ad, weight, expired))
    if ad >= 0 then text = put_ad(text, ad) end
  end
  return page(req, query, text)
end

local function answer_post(req, res)
  local form = req.form
  local directory, class, file, client = tonumber(form.dir), tonumber(form.class), tonumber(form.num), tonumber(form.client)
  if not (directory and class and file and client) then
    res.status = 400
    return "Fields are missing.\n"
  end
  local root = form.urlroot == "/" and "" or form.urlroot or ""
  local name = ("/dir%05d/class%d_%d"):format(directory, class, file)
  local text = read_file(name)
  if not text then return missing(res) end
  local login = tonumber((req.cookies.my_cookie or ""):match("^user_id=(%d+)")) or 0
  db.exec([[INSERT INTO web99_posts (at, directory, class, file, client, name, login)
    VALUES ($1, $2, $3, $4, $5, $6, $7)]], math.floor(time.now()), directory, class, file, client, root .. name, login)
  res:header("Set-Cookie", ("my_cookie=%d"):format(login))
  return page(req, "", text)
end

-- Records of 139 bytes each.
local function fetch(from, count)
  local lines = {}
  for _, row in ipairs(db.query("SELECT * FROM web99_posts ORDER BY number OFFSET $1 LIMIT $2", from, count)) do
    lines[#lines + 1] = ("%10d %10d %10d %5d %2d %2d %10d %-60s %10d %10d\n"):format(row.number, row.at, 0,
      row.directory, row.class, row.file, row.client, row.name, 0, row.login)
  end
  return table.concat(lines)
end

local function answer_command(query)
  local function argument(name) return tonumber(query:match("&" .. name .. "=(%d+)")) end
  if query:find("^command/Reset&") then return reset(argument("maxload"), argument("pttime")) end
  if query:find("^command/Fetch&") then return fetch(argument("from"), argument("count")) end
  return "There is no such command.\n"
end

return function(req, res)
  local query = req.query_string or ""
  if req.method == "POST" then return answer_post(req, res) end
  if query:find("^command/") then return answer_command(query) end
  return answer_get(req, res, query)
end
