#!/usr/bin/env python3
"""mw's inbox over HTTP: a reviewer signs in, sees what waits, and decides.

    inbox.py TENANT [PORT]       on 127.0.0.1; finds the server as libpq does (PGHOST, PGDATABASE ...)

Needs bottle and psycopg (Debian: python3-bottle, python3-psycopg).  mw_inbox_html() makes the pages; here is
who signs in, and what becomes of a form.  Who signs in is a role of PostgreSQL with its own password, and each
request is a connection of that role: what it may see and decide is the database's business, and not this page's.
(With one login for the application, connect as that and begin each request with SET ROLE.)  Put TLS in front of it.
"""
import hashlib
import hmac
import json
import secrets
import socketserver
import sys
import wsgiref.simple_server

import bottle
import psycopg
from psycopg.types.json import Jsonb

SECRET = secrets.token_bytes(32)		# of this process; a form that was made before a restart is refused
tenant = sys.argv[1] if len(sys.argv) > 1 else sys.exit(__doc__)


def token(user):
    """Another site can make a browser send a form, and the browser adds the password; it cannot know this."""
    return hmac.new(SECRET, user.encode(), hashlib.sha256).hexdigest()


def signed_in():
    user, password = bottle.request.auth or (None, None)
    if user and password:
        try:
            return user, psycopg.connect(user=user, password=password, autocommit=True)
        except psycopg.OperationalError:
            pass
    raise bottle.HTTPResponse("Who are you?", 401, {"WWW-Authenticate": 'Basic realm="approvals", charset="UTF-8"'})


def page(db, user, notice=None, before=None, interrupt_id=None, decisions=None):
    form = {"action": "/", "fields": {"token": token(user)}, "notice": notice, "comment": bottle.request.forms.getunicode("comment")}
    html, = db.execute("SELECT mw_inbox_html(%s, before => %s, interrupt_id => %s, decisions => %s, form => %s)",
                       (tenant, before, interrupt_id, decisions, Jsonb(form))).fetchone()
    return bottle.HTTPResponse(html, 200, {
        "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "frame-ancestors 'none'", "X-Frame-Options": "DENY"})


def decision(form, n, tool):
    """The n-th call's decision as JSON.  Arguments are passed on as they were typed: to read them here would round numbers."""
    kind = form.getunicode(f"type_{n}", "")
    text = form.getunicode({"edit": f"args_{n}", "reject": f"reason_{n}", "respond": f"answer_{n}"}.get(kind, ""), "").strip()
    if kind == "edit":
        json.loads(text)		# one value, or an error
        return '{"type": "edit", "edited_action": {"name": %s, "args": %s}}' % (json.dumps(tool), text)
    return json.dumps({"type": kind, "message": text} if text else {"type": kind})


@bottle.get("/")
def show():
    user, db = signed_in()
    with db:
        query = bottle.request.query
        return page(db, user, before=query.getunicode("before"), interrupt_id=query.getunicode("interrupt_id"))


@bottle.post("/")
def decide():
    user, db = signed_in()
    form = bottle.request.forms
    if not hmac.compare_digest(form.getunicode("token", "").encode(), token(user).encode()):
        raise bottle.HTTPResponse("This form is not from here.", 403)
    with db:
        interrupt_id = form.getunicode("interrupt_id")
        decisions = form.getunicode("decisions")
        try:
            session, tools = db.execute("SELECT min(session), coalesce(array_agg(tool ORDER BY place) FILTER (WHERE status = 'open'), '{}') FROM mw.interrupt"
                                        " WHERE tenant = %s AND interrupt_id = %s", (tenant, interrupt_id)).fetchone()
            if not decisions:
                each = [decision(form, n, tool) for n, tool in enumerate(tools)]
                decisions = '{"decisions": [%s]}' % ", ".join(each)
                if any(d.startswith('{"type": "edit"') for d in each):		# what changes is looked at first
                    return page(db, user, interrupt_id=interrupt_id, decisions=decisions)
            db.execute("SELECT mw_decide(%s, %s, %s, %s, comment => %s)",
                       (tenant, session, decisions, interrupt_id, form.getunicode("comment", "").strip() or None))
        except json.JSONDecodeError as e:
            return page(db, user, f"Nothing was recorded: the arguments are no JSON. {e}", interrupt_id=interrupt_id)
        except psycopg.Error as e:
            said = filter(None, (e.diag.message_primary, e.diag.message_detail, e.diag.message_hint))
            return page(db, user, "Nothing was recorded.\n" + "\n".join(said), interrupt_id=interrupt_id)
    bottle.redirect("/?interrupt_id=" + interrupt_id, 303)


class Threads(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """Browsers open connections in advance; one thread would wait for what never comes."""
    daemon_threads = True


if __name__ == "__main__":
    bottle.run(host="127.0.0.1", port=int(sys.argv[2]) if len(sys.argv) > 2 else 8080, server_class=Threads)
