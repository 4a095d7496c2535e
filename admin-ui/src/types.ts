// types.ts - what the API answers, by the names that the screens use
//
// Made of the types that come from the server's own description (api-types.ts): a field that an action no
// longer has does not compile here. Times are RFC 3339 in UTC. A field that is not set is missing.
import type { Answers, Items } from "./api-types";

// Fields that are always there.
type Sure<T, K extends keyof T> = Omit<T, K> & Required<Pick<T, K>>;
// Fields of which more is known than that they are text.
type But<T, K> = Omit<T, keyof K> & K;

export type Role = "operator" | "tenant" | "user";

export interface Session {
    login: string;
    role: Role;
    csrf: string;
    expires: string;
}

export interface Page<T> {
    items: T[];
    next?: string;
}

export interface Problem {
    type?: string;
    title?: string;
    status: number;
    detail?: string;
    code: string;
    argument?: string;
    current?: Record<string, unknown>;
}

export type Status = Sure<Answers["server.status"], "state" | "host_name" | "version" | "uptime_s" | "database">;
export type Check = But<Sure<Items["server.checks"], "name" | "title">, { state: "ok" | "warn" | "bad" }>;
export type Node = But<Sure<Items["node.list"], "name">, { state: "serving" | "draining" | "drained" | "away" }>;
export type LogLine = Sure<Items["server.log"], "at" | "level" | "event" | "text">;
export type Domain = Sure<Items["domain.list"], "name" | "accounts">;
export type DnsRecord = But<Sure<Items["domain.records"], "type" | "name">, { state: "ok" | "missing" | "wrong" | "optional" | "unknown" }>;
export type Contact = Sure<Items["contact.list"], "id" | "domain" | "name">;
export type UpstreamIdentity = "client" | "service" | "for-client";
export type UpstreamRow = But<Sure<Items["upstream.list"], "name" | "urls">, { identity: UpstreamIdentity }>;
export type Upstream = UpstreamRow & Pick<Answers["upstream.show"], "ca">;
export type UpstreamServer = But<Sure<Items["ldap.status"], "upstream" | "url">, { state: "up" | "degraded" | "trying" | "down" | "idle" }>;
export type DirectoryStatus = Answers["ldap.status"] & Page<UpstreamServer>;
export type Account = Sure<Answers["user.show"], "address" | "state">;
export type AppPassword = Sure<Items["app-password.list"], "id" | "label">;
export type Alias = Sure<Items["alias.list"], "address" | "target">;
export type Mailbox = Sure<Items["mailbox.list"], "name" | "messages" | "bytes">;
export type Deleted = Sure<Items["deleted.list"], "message" | "mailbox" | "bytes" | "deleted">;
export type Message = Sure<Items["message.list"], "uid" | "bytes" | "seen">;
export type Site = Sure<Answers["site.show"], "name">;
export type Route = Sure<Items["route.list"], "id" | "prefix" | "handler">;
export type Certificate = Sure<Items["certificate.list"], "name">;
export type Scope = "global" | "tenant" | "domain" | "site";
type ScriptState = { state: "active" | "inactive" | "set aside" | "broken"; scope?: Scope };
export type ScriptRow = But<Sure<Items["lua.list"], "name">, ScriptState>;
export type Script = But<Sure<Answers["lua.show"], "name" | "text">, ScriptState>;
export type ScriptVersion = Sure<Items["lua.versions"], "version">;
export type ScriptCheck = Sure<Answers["lua.check"], "ok">;
export type ScriptTest = Sure<Answers["lua.test"], "ok">;
export type Plugin = Sure<Items["plugin.list"], "name" | "state">;
export type Setting = Sure<Items["config.list"], "key" | "type"> & Pick<Answers["config.get"], "version" | "changed" | "by">;
export type SettingChange = Sure<Items["config.history"], "version">;
export type LiveSession = Sure<Items["session.list"], "id" | "service">;
export type AuditEntry = Sure<Items["audit.list"], "id" | "at" | "actor" | "action">;
export type Operator = Sure<Items["operator.list"], "name">;
export type Tenant = Sure<Items["tenant.list"], "name">;
export type ApiKey = But<Sure<Items["api-key.list"], "id" | "label">, { role?: Role }>;
