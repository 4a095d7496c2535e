// login.tsx - by name and password, or by a one-time link
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, logIn, logInByLink, messageOf } from "../api";
import { parse, place } from "../router";
import { Loading } from "../ui/bits";
import { FieldError, Form, Text } from "../ui/form";
import { Logo } from "../ui/icons";
import { Banner, ThemeSwitch } from "../ui/shell";

export function LoginForm({ login: known = "" }: { login?: string }): JSX.Element {
    const [login, setLogin] = useState(known);
    const [password, setPassword] = useState("");
    const act = async (): Promise<void> => {
        if (!login.trim()) throw new FieldError("login", "type your login");
        if (!password) throw new FieldError("password", "type your password");
        try {
            await logIn(login.trim(), password);
        } catch (error) {
            if (error instanceof ApiError && error.status === 401) {
                setPassword("");
                throw new FieldError("password", "login and password do not fit together");
            }
            throw error;
        }
    };
    return (
        <Form act={act} submit="Log in">
            <Text name="login" label="Login" value={login} set={setLogin} autocomplete="username" autofocus={!known}
                help="A mail address, or an operator's name." />
            <Text name="password" label="Password" secret value={password} set={setPassword}
                autocomplete="current-password" autofocus={Boolean(known)} />
        </Form>
    );
}

export function LoginPage(): JSX.Element {
    useEffect(() => {
        document.title = "Log in · Posthouse";
    }, []);
    return (
        <main class="login">
            <Banner />
            <div class="login-card">
                <div class="login-brand"><Logo /><h1>Posthouse</h1></div>
                <LoginForm />
            </div>
            <div class="login-foot">
                <p class="dim">
                    The database is away, or the password is lost? <code>posthouse console-link</code> on the
                    server prints a link that lets an operator in.
                </p>
                <ThemeSwitch />
            </div>
        </main>
    );
}

export function LinkPage({ token }: { token: string }): JSX.Element {
    const [error, setError] = useState("");
    useEffect(() => {
        // The token is of no use after this; it should not stay in the address.
        history.replaceState(null, "", "#/");
        logInByLink(token).then(() => {
            place.value = parse("#/");
        }, (caught: unknown) => setError(messageOf(caught)));
    }, []);
    return (
        <main class="login">
            <div class="login-card">
                <div class="login-brand"><Logo /><h1>Posthouse</h1></div>
                {error ? (
                    <>
                        <p class="notice is-bad" role="alert">{error}</p>
                        <p>A link works once and not for long. Make a new one with <code>posthouse console-link</code>.</p>
                        <a class="button" href="#/" onClick={() => location.reload()}>Log in with a password</a>
                    </>
                ) : <Loading />}
            </div>
        </main>
    );
}
