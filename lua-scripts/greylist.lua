-- greylist: who is not known yet is asked to come again; most spam never does
--
-- A triplet of network, sender and recipient is let in when it comes again after `wait_s`, and is then
-- known for `known_d` days. Who has logged in, and local networks, are not asked.

local db = posthouse.db
local time = posthouse.time

local wait_s = 240
local known_d = 35

-- /24 of IPv4, /64 of IPv6: large senders try again from a neighbour.
local function network_of(ip)
  local first = ip:match("^(%d+%.%d+%.%d+)%.%d+$")
  if first then return first end
  local groups = {}
  for group in ip:gmatch("[^:]+") do
    groups[#groups + 1] = group
    if #groups == 4 then break end
  end
  return table.concat(groups, ":")
end

local function is_local(ip)
  return ip:find("^127%.") or ip:find("^10%.") or ip:find("^192%.168%.") or ip == "::1"
end

local function make_table()
  db.exec [[
    CREATE TABLE IF NOT EXISTS greylist (
      network text, sender text, recipient text, first_at bigint NOT NULL, last_at bigint NOT NULL,
      PRIMARY KEY (network, sender, recipient))]]
end

-- The time of the first visit.
local function visit(network, sender, recipient, now)
  local rows = db.query([[
    INSERT INTO greylist VALUES ($1, $2, $3, $4::bigint, $4::bigint)
    ON CONFLICT (network, sender, recipient) DO UPDATE
    SET first_at = CASE WHEN greylist.last_at < $5::bigint THEN excluded.first_at
                        ELSE greylist.first_at END,
        last_at = excluded.last_at
    RETURNING first_at]], network, sender, recipient, now, now - known_d * 86400)
  return rows[1].first_at
end

return {
  ["smtp.rcpt"] = function(ctx)
    if ctx.auth or is_local(ctx.peer.ip) then return nil end
    local now = ctx.time or time.now() // 1
    make_table()
    local first = visit(network_of(ctx.peer.ip), ctx.sender:lower(), ctx.recipient:lower(), now)
    if now - first < wait_s then
      return tempfail("4.7.1 Greylisted, please try again in a few minutes")
    end
  end,

  tests = {
    ["the first visit is put off, a later one is not"] = function(run)
      local visit = { sender = "a@example.org", recipient = "b@example.test",
        peer = { ip = "192.0.2.1" }, time = 1000000 }
      assert(run("smtp.rcpt", visit).kind == "tempfail")
      visit.time = visit.time + 60
      assert(run("smtp.rcpt", visit).kind == "tempfail")
      visit.time, visit.peer.ip = visit.time + 240, "192.0.2.99"
      assert(run("smtp.rcpt", visit) == nil)
    end,
    ["who was away for long is put off again"] = function(run)
      local visit = { sender = "c@example.org", recipient = "b@example.test",
        peer = { ip = "2001:db8:1:2:3::4" }, time = 1000000 }
      run("smtp.rcpt", visit)
      visit.time = visit.time + 40 * 86400
      assert(run("smtp.rcpt", visit).kind == "tempfail")
    end,
    ["who has logged in is not asked"] = function(run)
      assert(run("smtp.rcpt", { sender = "a@example.test", recipient = "b@example.test",
        peer = { ip = "192.0.2.1" }, auth = { user = "a@example.test" } }) == nil)
    end,
  },
}
