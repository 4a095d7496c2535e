// api-types.ts - made by generate-types.mjs from openapi.json; not to be edited

// What the items of a list have, by action.
export interface Items {
    "alias.list": {
        /** the address that people write to */
        address?: string;
        /** where its mail goes */
        target?: string;
    };
    "api-key.list": {
        /** its number */
        id?: number;
        /** what uses it */
        label?: string;
        /** operator, or tenant */
        role?: string;
        /** who made it */
        by?: string;
        /** when it was made */
        created?: string;
        /** when it was last used */
        last_used?: string;
        /** when it ends */
        expires?: string;
    };
    "app-password.list": {
        /** its number */
        id?: number;
        /** what it is for */
        label?: string;
        /** when it was made */
        created?: string;
        /** when somebody last logged in with it */
        last_used?: string;
        /** when it ends */
        expires?: string;
    };
    "audit.list": {
        /** ascending */
        id?: number;
        /** when */
        at?: string;
        /** by whom */
        actor?: string;
        /** from where: control, or an address */
        origin?: string;
        /** what */
        action?: string;
        /** to what */
        target?: string;
        /** done, or the error */
        outcome?: string;
        /** the arguments, as JSON, without secrets */
        detail?: string;
        /** the thing before, as JSON */
        before?: string;
        /** the thing after, as JSON */
        after?: string;
    };
    "certificate.list": {
        /** the first of its names */
        name?: string;
        /** all of them, divided by commas */
        names?: string;
        /** who signed it */
        issuer?: string;
        /** valid from */
        not_before?: string;
        /** valid to */
        not_after?: string;
        /** raised by each replacement */
        version?: number;
    };
    "config.apply": {
        /** the setting */
        key?: string;
        /** of this node */
        node?: string;
        /** what holds now */
        from?: string;
        /** what would hold */
        to?: string;
    };
    "config.diff": {
        /** the setting */
        key?: string;
        /** of this node */
        node?: string;
        /** what holds now */
        from?: string;
        /** what would hold */
        to?: string;
    };
    "config.history": {
        /** orders all changes of settings */
        version?: number;
        /** the setting */
        key?: string;
        /** where it was set */
        scope?: string;
        /** what it was set to; missing: unset */
        value?: string;
        /** when */
        changed?: string;
        /** by whom */
        by?: string;
    };
    "config.list": {
        /** the setting */
        key?: string;
        /** what holds now */
        value?: string;
        /** what holds where nothing is set */
        default?: string;
        /** it is set in the scope that was asked for */
        set?: boolean;
        /** bool, int, size, time, text, choice or list */
        type?: string;
        /** the least number, or length */
        min?: number;
        /** the greatest number, or length */
        max?: number;
        /** of a choice, divided by | */
        choices?: string;
        /** where it can be set, divided by spaces */
        scopes?: string;
        /** what it does */
        help?: string;
    };
    "contact.list": {
        /** its number */
        id?: number;
        /** in whose address book */
        domain?: string;
        /** the name to show */
        name?: string;
        /** the given name */
        given_name?: string;
        /** the family name */
        surname?: string;
        /** where the person works */
        organization?: string;
        /** a number to call */
        telephone?: string;
        /** mail addresses, divided by commas */
        mail?: string;
        /** raised by each change */
        version?: number;
        /** when it was made */
        created?: string;
    };
    "deleted.list": {
        /** its number */
        message?: string;
        /** where it was */
        mailbox?: string;
        /** its subject */
        subject?: string;
        /** who sent it */
        from?: string;
        /** its size */
        bytes?: number;
        /** when it was deleted */
        deleted?: string;
    };
    "domain.list": {
        /** the domain */
        name?: string;
        /** whose it is */
        tenant_id?: number;
        /** how many accounts it has */
        accounts?: number;
        /** when it was added */
        created?: string;
    };
    "domain.records": {
        /** MX, TXT, A ... */
        type?: string;
        /** where it stands */
        name?: string;
        /** ok, missing, wrong, optional (missing, and many do without) or unknown (could not ask) */
        state?: string;
        /** what it is for, or what is wrong with it */
        why?: string;
        /** to paste into the zone; of a host with several addresses, several lines */
        line?: string;
        /** what the DNS says now, divided by " | " */
        found?: string;
    };
    "ldap.status": {
        /** the upstream */
        upstream?: string;
        /** one of its servers */
        url?: string;
        /** up, degraded (far slower than the others), trying, down, or idle (not asked yet) */
        state?: string;
        /** since when */
        since?: string;
        /** connections to it */
        connections?: number;
        /** requests under way there */
        in_flight?: number;
        /** requests that it answered */
        answered?: number;
        /** connections and requests that failed */
        failures?: number;
        /** time to an answer, the last ones */
        mean_ms?: string;
        /** the last failure */
        error?: string;
        /** when that was */
        error_at?: string;
    };
    "lua.list": {
        /** the script */
        name?: string;
        /** global, tenant, domain or site */
        scope?: string;
        /** which one */
        scope_name?: string;
        /** the hooks that it takes */
        hooks?: string;
        /** active, inactive, set aside (after too many errors) or broken (it cannot be loaded on this node) */
        state?: string;
        /** the version that is used; 0: none */
        active_version?: number;
        /** the last version that was installed */
        newest_version?: number;
        /** its turn among scripts of the same scope */
        order?: number;
        /** how often this node called it */
        calls?: number;
        /** how often it failed */
        errors?: number;
        /** when it was changed */
        changed?: string;
        /** by whom */
        changed_by?: string;
    };
    "lua.versions": {
        /** its number */
        version?: number;
        /** when it was installed */
        at?: string;
        /** by whom */
        by?: string;
        /** what it is about */
        note?: string;
        /** is it the one that is used? */
        active?: boolean;
        /** the length of its text */
        bytes?: number;
    };
    "mailbox.list": {
        /** its full name */
        name?: string;
        /** what it is for: inbox, drafts, sent, junk, trash, archive ... */
        use?: string;
        /** how many it holds */
        messages?: number;
        /** how many of them were not read */
        unseen?: number;
        /** how much it holds */
        bytes?: number;
    };
    "message.list": {
        /** its number in the mailbox */
        uid?: number;
        /** its subject */
        subject?: string;
        /** who sent it */
        from?: string;
        /** when it came */
        date?: string;
        /** its size */
        bytes?: number;
        /** it was read */
        seen?: boolean;
    };
    "node.list": {
        /** as posthouse.conf calls it */
        name?: string;
        /** its number */
        node?: number;
        /** serving, draining (no new connections, some are left), drained, or away (not seen for 20 s) */
        state?: string;
        /** the one that answers */
        this?: boolean;
        /** clients that are connected, when it was last seen */
        sessions?: number;
        /** of the program */
        version?: string;
        /** since when it serves */
        started?: string;
        /** when it last renewed its lease */
        seen?: string;
    };
    "operator.list": {
        /** the login */
        name?: string;
        /** an administrator of this tenant only */
        tenant?: string;
        /** when it was made */
        created?: string;
    };
    "plugin.list": {
        /** the plugin */
        name?: string;
        /** serving, draining (an older generation), stopped or failed */
        state?: string;
        /** raised by each replacement */
        generation?: number;
        /** its sessions, tasks and jobs */
        uses?: number;
        /** why it failed */
        error?: string;
        /** what it is */
        summary?: string;
    };
    "route.list": {
        /** its number */
        id?: number;
        /** paths that begin so */
        prefix?: string;
        /** who answers */
        handler?: string;
        /** what the handler needs */
        target?: string;
    };
    "server.actions": {
        /** the action */
        name?: string;
        /** who brings it */
        plugin?: string;
        /** the least that may call it */
        role?: string;
        /** its place in the API */
        route?: string;
        /** it goes to the audit log */
        changes?: boolean;
        /** what it does */
        help?: string;
        /** its arguments, as JSON */
        arguments?: string;
    };
    "server.checks": {
        /** which check */
        name?: string;
        /** for people */
        title?: string;
        /** ok, warn or bad */
        state?: string;
        /** what was found */
        text?: string;
        /** what to do */
        advice?: string;
    };
    "server.log": {
        /** ascending */
        number?: number;
        /** when */
        at?: string;
        /** error, warning, notice, info or debug */
        level?: string;
        /** what happened, in one word */
        event?: string;
        /** in which session */
        session?: string;
        /** the details */
        text?: string;
    };
    "session.list": {
        /** its name */
        id?: string;
        /** what it is served by */
        service?: string;
        /** the client's address */
        peer?: string;
        /** who has logged in */
        login?: string;
        /** it is encrypted */
        tls?: boolean;
        /** when it began */
        since?: string;
        /** bytes from the client */
        bytes_in?: number;
        /** bytes to the client */
        bytes_out?: number;
        /** what it does now */
        activity?: string;
    };
    "site.list": {
        /** its host name */
        name?: string;
        /** more of them, divided by commas */
        names?: string;
        /** the folder of its files */
        root?: string;
        /** plain requests are sent to https */
        https_only?: boolean;
        /** .lua and .lp files are run */
        pages?: boolean;
        /** whose it is */
        tenant?: string;
        /** how many routes it has */
        routes?: number;
        /** where it is seen */
        url?: string;
        /** when it was made */
        created?: string;
        /** raised by each change */
        version?: number;
    };
    "tenant.list": {
        /** the tenant */
        name?: string;
        /** how many domains it has */
        domains?: number;
        /** when it was made */
        created?: string;
    };
    "upstream.list": {
        /** what it is called */
        name?: string;
        /** the name below which it answers */
        suffix?: string;
        /** its servers, the preferred first */
        urls?: string;
        /** TLS is begun on ldap:// */
        start_tls?: boolean;
        /** as whom its shared connections log in */
        bind_dn?: string;
        /** as whom it is asked: client, service, for-client */
        identity?: string;
        /** who has not logged in may read */
        anonymous?: boolean;
        /** changes are refused */
        read_only?: boolean;
        /** shared connections to each server, for each reactor */
        connections?: number;
        /** how long a request may wait for its answer */
        timeout_ms?: number;
        /** how long an answer is given again */
        cache_s?: number;
        /** when it was made */
        created?: string;
        /** raised by each change */
        version?: number;
    };
    "user.list": {
        /** the mail address, which is the login */
        address?: string;
        /** the name to show */
        name?: string;
        /** active, suspended (receives only) or closing (neither) */
        state?: string;
        /** how many it holds */
        messages?: number;
        /** how much it holds */
        bytes?: number;
        /** how much it may hold; 0: no limit */
        quota_bytes?: number;
        /** how many it may hold; 0: no limit */
        quota_messages?: number;
        /** when it was made */
        created?: string;
    };
}

// What actions answer beside items.
export interface Answers {
    "alias.add": {
    };
    "alias.remove": {
    };
    "api-key.add": {
        /** its number */
        id?: number;
        /** the key: it is not shown again */
        key?: string;
    };
    "api-key.remove": {
    };
    "app-password.add": {
        /** its number */
        id?: number;
        /** the password: it is not shown again */
        password?: string;
    };
    "app-password.remove": {
    };
    "certificate.add": {
        /** the first of its names */
        name?: string;
        /** all of them, divided by commas */
        names?: string;
    };
    "certificate.remove": {
    };
    "config.export": {
        /** the document */
        text?: string;
    };
    "config.get": {
        /** the setting */
        key?: string;
        /** what holds now */
        value?: string;
        /** what holds where nothing is set */
        default?: string;
        /** it is set in the scope that was asked for */
        set?: boolean;
        /** bool, int, size, time, text, choice or list */
        type?: string;
        /** the least number, or length */
        min?: number;
        /** the greatest number, or length */
        max?: number;
        /** of a choice, divided by | */
        choices?: string;
        /** where it can be set, divided by spaces */
        scopes?: string;
        /** what it does */
        help?: string;
        /** of the last change in this scope; 0: never set */
        version?: number;
        /** when */
        changed?: string;
        /** by whom */
        by?: string;
    };
    "config.set": {
    };
    "config.unset": {
    };
    "console.link": {
        /** what to open in a browser */
        url?: string;
        /** until when; it works once */
        expires?: string;
    };
    "contact.add": {
        /** its number */
        id?: number;
    };
    "contact.change": {
    };
    "contact.remove": {
    };
    "contact.show": {
        /** its number */
        id?: number;
        /** in whose address book */
        domain?: string;
        /** the name to show */
        name?: string;
        /** the given name */
        given_name?: string;
        /** the family name */
        surname?: string;
        /** where the person works */
        organization?: string;
        /** a number to call */
        telephone?: string;
        /** mail addresses, divided by commas */
        mail?: string;
        /** raised by each change */
        version?: number;
        /** when it was made */
        created?: string;
    };
    "deleted.restore": {
    };
    "domain.add": {
        /** its number */
        id?: number;
    };
    "domain.remove": {
    };
    "domain.show": {
        /** the domain */
        name?: string;
        /** whose it is */
        tenant_id?: number;
        /** how many accounts it has */
        accounts?: number;
        /** when it was added */
        created?: string;
    };
    "ldap.flush": {
    };
    "ldap.status": {
        /** answers that are kept */
        cached_answers?: number;
        /** memory for them */
        cached_bytes?: number;
        /** logins that are kept */
        cached_binds?: number;
    };
    "lua.activate": {
        /** the version that is used now */
        version?: number;
    };
    "lua.check": {
        /** is it good? */
        ok?: boolean;
        /** where it is not; left out when that is not known */
        line?: number;
        /** what is wrong */
        message?: string;
        /** the hooks that it takes */
        hooks?: string;
    };
    "lua.deactivate": {
    };
    "lua.install": {
        /** the number of this text */
        version?: number;
        /** the hooks that it takes */
        hooks?: string;
    };
    "lua.remove": {
    };
    "lua.rollback": {
        /** the version that is used now */
        version?: number;
    };
    "lua.show": {
        /** the script */
        name?: string;
        /** global, tenant, domain or site */
        scope?: string;
        /** which one */
        scope_name?: string;
        /** the hooks that it takes */
        hooks?: string;
        /** active, inactive, set aside (after too many errors) or broken (it cannot be loaded on this node) */
        state?: string;
        /** the version that is used; 0: none */
        active_version?: number;
        /** the last version that was installed */
        newest_version?: number;
        /** its turn among scripts of the same scope */
        order?: number;
        /** how often this node called it */
        calls?: number;
        /** how often it failed */
        errors?: number;
        /** when it was changed */
        changed?: string;
        /** by whom */
        changed_by?: string;
        /** of the script as a whole, for if_version */
        version?: number;
        /** which text this is */
        text_version?: number;
        /** the text */
        text?: string;
        /** why this node cannot load it */
        broken?: string;
        /** the last error since the activation */
        last_error?: string;
        /** its line; 0: not known */
        last_error_line?: number;
        /** when it was */
        last_error_at?: string;
        /** the hook that failed */
        last_error_hook?: string;
        /** the fields of its context, as JSON, without what is private */
        last_error_input?: string;
    };
    "lua.test": {
        /** did all go well? */
        ok?: boolean;
        /** what the tests, print() and the log wrote */
        output?: string;
        /** the hook's answer, as JSON */
        result?: string;
        /** where it failed */
        line?: number;
        /** why */
        message?: string;
    };
    "node.drain": {
    };
    "node.resume": {
    };
    "operator.add": {
    };
    "operator.passwd": {
    };
    "operator.remove": {
    };
    "plugin.replace": {
    };
    "plugin.start": {
    };
    "plugin.stop": {
    };
    "route.add": {
        /** its number */
        id?: number;
    };
    "route.change": {
    };
    "route.remove": {
    };
    "server.metrics": {
        /** the text */
        text?: string;
    };
    "server.status": {
        /** available, or what is wrong */
        state?: string;
        /** the name by which it greets */
        host_name?: string;
        /** of the program */
        version?: string;
        /** of the daemon */
        process_id?: number;
        /** since the daemon began */
        uptime_s?: number;
        /** what the keeper says of its children */
        processes?: string;
        /** available or away */
        database?: string;
        /** the last one */
        database_error?: string;
        /** of PostgreSQL */
        database_version?: number;
        /** the last migration */
        schema_version?: number;
        /** this node's number */
        node?: number;
        /** connections now */
        sessions?: number;
        /** since the daemon began */
        messages_delivered?: number;
        /** held in memory */
        open_mailboxes?: number;
        /** used by the daemon */
        cpu_ms?: number;
        /** given out by the allocator */
        heap_bytes?: number;
        /** resident */
        memory_bytes?: number;
    };
    "session.cut": {
    };
    "site.add": {
        /** its number */
        id?: number;
        /** where its files go */
        root?: string;
    };
    "site.change": {
    };
    "site.remove": {
    };
    "site.show": {
        /** its host name */
        name?: string;
        /** more of them, divided by commas */
        names?: string;
        /** the folder of its files */
        root?: string;
        /** plain requests are sent to https */
        https_only?: boolean;
        /** .lua and .lp files are run */
        pages?: boolean;
        /** whose it is */
        tenant?: string;
        /** how many routes it has */
        routes?: number;
        /** where it is seen */
        url?: string;
        /** when it was made */
        created?: string;
        /** raised by each change */
        version?: number;
    };
    "tenant.add": {
        /** its number */
        id?: number;
    };
    "tenant.remove": {
    };
    "upstream.add": {
        /** its number */
        id?: number;
    };
    "upstream.change": {
    };
    "upstream.remove": {
    };
    "upstream.show": {
        /** what it is called */
        name?: string;
        /** the name below which it answers */
        suffix?: string;
        /** its servers, the preferred first */
        urls?: string;
        /** TLS is begun on ldap:// */
        start_tls?: boolean;
        /** as whom its shared connections log in */
        bind_dn?: string;
        /** as whom it is asked: client, service, for-client */
        identity?: string;
        /** who has not logged in may read */
        anonymous?: boolean;
        /** changes are refused */
        read_only?: boolean;
        /** shared connections to each server, for each reactor */
        connections?: number;
        /** how long a request may wait for its answer */
        timeout_ms?: number;
        /** how long an answer is given again */
        cache_s?: number;
        /** when it was made */
        created?: string;
        /** raised by each change */
        version?: number;
        /** certificates to trust for it; none: the system's */
        ca?: string;
    };
    "user.activate": {
    };
    "user.add": {
        /** its number */
        id?: number;
    };
    "user.change": {
    };
    "user.erase": {
    };
    "user.passwd": {
    };
    "user.remove": {
    };
    "user.show": {
        /** the mail address, which is the login */
        address?: string;
        /** the name to show */
        name?: string;
        /** active, suspended (receives only) or closing (neither) */
        state?: string;
        /** how many it holds */
        messages?: number;
        /** how much it holds */
        bytes?: number;
        /** how much it may hold; 0: no limit */
        quota_bytes?: number;
        /** how many it may hold; 0: no limit */
        quota_messages?: number;
        /** when it was made */
        created?: string;
        /** raised by each change */
        version?: number;
        /** somebody can log in with one */
        has_password?: boolean;
        /** how many */
        app_passwords?: number;
        /** with an app password */
        last_login?: string;
    };
    "user.suspend": {
    };
}
