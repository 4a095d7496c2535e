-- guestbook: a page that keeps entries in a table of its own
--
-- Install it, then let a route of a site lead to it:
--   posthouse lua install guestbook lua-scripts/guestbook.lua --activate
--   posthouse route add www.example.org /guestbook lua --target guestbook

local db = posthouse.db

local function make_table()
  db.exec [[
    CREATE TABLE IF NOT EXISTS guestbook (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      at timestamptz NOT NULL DEFAULT now(), name text NOT NULL, entry text NOT NULL)]]
end

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

local function escape(text)
  return (text:gsub("[&<>\"']", entities))
end

local function cut(text, length)
  return (text or ""):sub(1, length)
end

local function show(res)
  res:write("<!doctype html>\n<title>Guest book</title>\n<h1>Guest book</h1>\n")
  for _, row in ipairs(db.query("SELECT name, entry FROM guestbook ORDER BY id DESC LIMIT 50")) do
    res:write("<p><b>", escape(row.name), "</b> ", escape(row.entry), "</p>\n")
  end
  res:write('<form method="post"><input name="name" required> <input name="entry" required> ',
    "<button>Sign</button></form>\n")
end

return {
  ["http.content"] = function(req, res)
    make_table()
    if req.method == "POST" then
      local name, entry = cut(req.form.name, 100), cut(req.form.entry, 1000)
      if name == "" or entry == "" then
        res.status = 400
        return "A name and an entry are needed.\n"
      end
      db.exec("INSERT INTO guestbook (name, entry) VALUES ($1, $2)", name, entry)
      return res:redirect(req.path, 303)
    end
    show(res)
  end,

  tests = {
    ["an entry is kept, and shown as text"] = function(run)
      local form = { ["content-type"] = "application/x-www-form-urlencoded" }
      local answer = run("http.content", { method = "POST", path = "/g", headers = form,
        body = "name=Ann&entry=%3Cb%3Ehello" })
      assert(answer.status == 303 and answer.headers.location == "/g")
      local page = run("http.content", { path = "/g" })
      assert(page.status == 200 and page.body:find("&lt;b&gt;hello", 1, true))
    end,
    ["an empty one is not"] = function(run)
      assert(run("http.content", { method = "POST", path = "/g" }).status == 400)
    end,
  },
}
