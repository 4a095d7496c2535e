-- office-hours: who may see what of a site, by network, path and time
--
-- Install it for one site: --scope site --scope_name www.example.org

local inside = "^192%.0%.2%."
local from_hour, to_hour = 8, 18 -- UTC

return {
  ["http.access"] = function(ctx)
    if ctx.peer.ip:find(inside) then return nil end
    if ctx.path:find("^/internal/") or ctx.path == "/internal" then return deny(403) end
    local hour = tonumber(os.date("!%H", ctx.time or os.time()))
    if ctx.path:find("^/shop/") and (hour < from_hour or hour >= to_hour) then
      return deny(503, "The shop is open from 8 to 18 UTC")
    end
  end,

  tests = {
    ["inside sees everything"] = function(run)
      assert(run("http.access", { path = "/internal/x", peer = { ip = "192.0.2.7" } }) == nil)
    end,
    ["outside does not"] = function(run)
      assert(run("http.access", { path = "/internal/x", peer = { ip = "198.51.100.1" } }).code == 403)
      assert(run("http.access", { path = "/internals", peer = { ip = "198.51.100.1" } }) == nil)
    end,
    ["the shop has hours"] = function(run)
      local visit = { path = "/shop/", peer = { ip = "198.51.100.1" }, time = 3 * 3600 }
      assert(run("http.access", visit).code == 503)
      visit.time = 12 * 3600
      assert(run("http.access", visit) == nil)
    end,
  },
}
