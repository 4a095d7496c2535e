---@meta posthouse
-- What scripts of Posthouse find, for the Lua language server and for docs/lua/reference.md, which is made
-- from this file by docs/lua/make-reference. A line that begins with "--#" is a heading of the reference.

--# Modules

---Lines for the server's log, with the script's name; in a test they are part of its output.
---At most 100 lines of 1 KiB a call.
---@class posthouse.log
posthouse.log = {}
---Someone must act.
---@param text any
function posthouse.log.error(text) end
---Something went on differently.
---@param text any
function posthouse.log.warning(text) end
---One line for one event. print() writes the same.
---@param text any
function posthouse.log.info(text) end
---For developers.
---@param text any
function posthouse.log.debug(text) end

---JSON, to a depth of 64.
---@class posthouse.json
---@field null userdata JSON's null, which a table cannot hold as nil
posthouse.json = {}
---Text from a value. A table with a first element, or one from array(), becomes an array. "<", ">" and "&"
---are escaped, so that the text is safe within HTML.
---@param value any
---@return string
function posthouse.json.encode(value) end
---The value of a text; raises an error that says at which byte the text is no JSON.
---@param text string
---@return any
function posthouse.json.decode(text) end
---Marks a table as an array, also when it is empty; gives the table.
---@param list table
---@return table
function posthouse.json.array(list) end

---Seconds since 1970 UTC.
---@class posthouse.time
posthouse.time = {}
---Now, with fractions.
---@return number
function posthouse.time.now() end
---"2026-11-30T15:00:00Z" (RFC 3339).
---@param seconds number
---@return string
function posthouse.time.format(seconds) end
---Nil for what is no date of RFC 3339.
---@param text string
---@return number?
function posthouse.time.parse(text) end

---The script's own tables: a PostgreSQL schema for the core's scripts, and one for each tenant's. Nothing else
---can be reached. At most 10,000 rows or 4 MiB an answer; a statement ends with its call. Not there
---while a script is loaded.
---@class posthouse.db
posthouse.db = {}
---Rows as tables by column. Parameters stand for $1, $2 ...; nil is NULL. Integers, floats, booleans and bytea
---come as Lua values, all else as text.
---@param sql string one statement
---@param ... string|number|boolean|nil
---@return table[]
function posthouse.db.query(sql, ...) end
---How many rows were changed.
---@param sql string one statement
---@param ... string|number|boolean|nil
---@return integer
function posthouse.db.exec(sql, ...) end
---Runs the function in a transaction and gives what it gives; an error rolls back and goes on. Within another
---transaction it is a savepoint.
---@param func function
---@return any ...
function posthouse.db.transaction(func) end

---Accounts. Not there while a script is loaded.
---@class posthouse.user
posthouse.user = {}
---The account of an address, or nil: address, name, state ("active", "suspended", "closing", "erased"),
---quota_bytes, quota_messages, used_bytes, used_messages, created. A tenant's scripts find its own only.
---@param address string
---@return table?
function posthouse.user.find(address) end

---Files of the site that a page belongs to. Pages only.
---@class posthouse.site
posthouse.site = {}
---The bytes of a file below the site's root, at most 16 MiB, or nil: there is none. No page can be read, and nothing
---whose name begins with a dot.
---@param path string
---@return string?
function posthouse.site.read(path) end

--# Answers of hooks

---No script behind this one is asked. At delivery: where to, and with which flags.
---@param place? { mailbox?: string, flags?: string[]|string }
---@return answer
function accept(place) end
---Refuses for good. `reject("text")`, `reject(554, "text")`. Codes: 500 to 599; http.access: 400 to 599.
---@param code_or_text? integer|string
---@param text? string
---@return answer
function reject(code_or_text, text) end
---Refuses for now: 451; http.access: 503.
---@param text? string
---@return answer
function tempfail(text) end
---Takes the mail and drops it.
---@return answer
function discard() end
---To the account's Junk.
---@param reason? string
---@return answer
function quarantine(reason) end
---Mail: to another address, which must be local. Web: to a URL.
---@param target string
---@return answer
function redirect(target) end
---The same as accept(), for http.access.
---@return answer
function allow() end
---The same as reject(), for http.access.
---@param status? integer
---@param text? string
---@return answer
function deny(status, text) end

--# Pages

---What a page is asked. Parts are read when they are asked for.
---@class request
---@field method string
---@field path string normalised and decoded
---@field query_string string? as it came
---@field query table<string, string> of a name that comes twice the first counts
---@field headers table<string, string> by names in lower case
---@field cookies table<string, string>
---@field body string
---@field form table<string, string> of a body of type application/x-www-form-urlencoded
---@field json any of a body of type application/json; nil when it is none
---@field peer { ip: string, port: integer }
---@field user string? who has logged in
---@field host string
---@field scheme string "http" or "https"
---@field site string
---@field id string as in logs
request = {}
---One header, in any case.
---@param name string
---@return string?
function request:header(name) end

---What a page answers.
---@class response
---@field status integer 200 to 599; 200 when the page does not say
response = {}
---Adds to the body.
---@param ... string|number
---@return response
function response:write(...) end
---Sets a header; Set-Cookie, Link, Vary and their like may come more than once. Length, date and connection are the
---server's.
---@param name string
---@param value string
---@return response
function response:header(name, value) end
---Sends the browser elsewhere.
---@param url string
---@param status? integer 301, 302, 303, 307 or 308 (302)
function response:redirect(url, status) end
---Path=/, SameSite=Lax, HttpOnly, and Secure under https, when the options say nothing else.
---@param name string
---@param value string
---@param options? { path?: string, domain?: string, max_age?: integer, secure?: boolean, http_only?: boolean, same_site?: string }
---@return response
function response:cookie(name, value, options) end
---The value as JSON, with its content type.
---@param value any
function response:json(value) end
---Sends a file of the site in place of a body.
---@param path string below the site's root
function response:sendfile(path) end
---Runs a template of the site.
---@param template string below the site's root
---@param data? any what the template sees as `data`
function response:render(template, data) end

---In templates: runs another template of the site here.
---@param template string
---@param data? any
function include(template, data) end
---In templates: text that <%= %> shows as it is.
---@param text string
---@return userdata
function raw(text) end
